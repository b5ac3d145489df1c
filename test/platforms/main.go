package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "platforms:", err)
		os.Exit(1)
	}
}

// run reads a Node and writes its platform file.
func run(args []string, in io.Reader, out, warnings io.Writer) error {
	if len(args) != 1 {
		return errors.New("one argument is expected: the name of the platform, which becomes the name of the Node")
	}
	var node corev1.Node
	if err := json.NewDecoder(in).Decode(&node); err != nil {
		return fmt.Errorf("read Node as JSON: %w", err)
	}
	p, unowned, err := platformOf(&node, args[0])
	if err != nil {
		return err
	}
	content, err := p.file()
	if err != nil {
		return err
	}
	for _, key := range unowned {
		fmt.Fprintf(warnings, "platforms: label %s is left out: managedFields do not show who set it\n", key)
	}
	_, err = out.Write(content)
	return err
}
