package bed

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"
)

// Answered is how an operator's command answered.
type Answered struct {
	First, Took time.Duration // until the first line was there, and until the end
	Lines       int
	Peak        int64 // bytes of memory
}

// Tool runs an operator's command as an admin.
func (b *Bed) Tool(ctx context.Context, args ...string) (answered Answered) {
	command := exec.CommandContext(ctx, b.nodekeep.Binary(), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+b.nodekeep.AdminKubeconfig())
	var errOut bytes.Buffer
	command.Stderr = &errOut
	out, err := command.StdoutPipe()
	require.NoError(b, err)
	began := time.Now()
	require.NoError(b, command.Start())
	for lines := bufio.NewReader(out); err == nil; {
		if _, err = lines.ReadSlice('\n'); err == nil {
			if answered.Lines++; answered.Lines == 1 {
				answered.First = time.Since(began)
			}
		}
	}
	require.NoError(b, command.Wait(), "run nodekeep %v\n%s", args, &errOut)
	answered.Took = time.Since(began)
	if usage, ok := command.ProcessState.SysUsage().(*syscall.Rusage); ok {
		answered.Peak = usage.Maxrss << 10 // KiB on Linux
	}
	return answered
}
