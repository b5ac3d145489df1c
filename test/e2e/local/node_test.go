package local

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(RunTests(m, "test/e2e")) }
