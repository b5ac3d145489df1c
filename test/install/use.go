package install

// Use makes the processes run another program from their next start on, with the same arguments.
func (i *Installation) Use(binary string) { i.binary = binary }
