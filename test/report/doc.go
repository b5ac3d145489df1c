// Package report holds the tests of `nodekeep report` on a cluster of many Nodes. They compare its counts with an independent
// count of what kubectl prints. They measure its time and memory, and open its page in a browser.
//
//	make test-report                                                     1,000 Nodes
//	NODEKEEP_REPORT_NODES=10000 go test -v -count=1 -timeout 30m -run Counts ./test/report
//	make report-screenshot                                               docs/images/report-*.png, anew
//
// The browser is Chromium; `make chromium` installs it. Without one the test of the page is skipped, and says so.
package report
