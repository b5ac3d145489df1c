// Command platforms writes a platform file: what a Node of a real cluster shows, and who has set it. The file does not name the machine.
//
//	kubectl get node NODE -o json --show-managed-fields | go run ./test/platforms NAME >test/platforms/testdata/NAME.json
//
// The tests of this package play each file of testdata on a real API server. They register the Node as its kubelet does, and set the
// other labels under the field managers of the file. Then they delete the Node, and another machine registers under its name.
//
// The table NAME.md shows who set each label and taint, whether nodekeep keeps it, and why. It also shows what the new machine has, and the
// new machine must have it.
//
// A new platform is one file. `go test ./test/platforms -count=1 -update` writes its table. docs/platforms.md leads to each.
package main
