package report

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/websocket"
)

// browser is a Chromium without a display, driven by the Chrome DevTools Protocol.
type browser struct {
	t        testing.TB
	socket   *websocket.Conn
	session  string
	last     int
	requests []string // URLs that the page asked for
	problems []string // what the browser logged
}

// message is one of the protocol.
type message struct {
	ID        int             `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    any             `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// answers is how long the browser may take for one call; the machine may be slow and busy.
const answers = 2 * time.Minute

func findChromium() (string, error) {
	for _, name := range []string{os.Getenv("NODEKEEP_CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path, nil
		}
	}
	return "", errors.New("no Chromium: `make chromium` installs it, NODEKEEP_CHROMIUM names one")
}

// openBrowser starts a browser that ends with the test.
func openBrowser(t testing.TB) *browser {
	t.Helper()
	chromium, err := findChromium()
	if err != nil {
		t.Skip("the page of the report was not opened: ", err)
	}
	profile := t.TempDir()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	command := exec.CommandContext(ctx, chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-extensions", "--disable-background-networking", "--hide-scrollbars", "--remote-debugging-port=0",
		"--remote-allow-origins=*", "--user-data-dir="+profile, "about:blank")
	command.WaitDelay = 10 * time.Second
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		stop()
		_ = command.Wait() // it was killed
		require.Eventually(t, func() bool { return os.RemoveAll(profile) == nil }, answers, 50*time.Millisecond, "its other processes still write")
	})
	var address string
	require.Eventually(t, func() bool {
		content, err := os.ReadFile(filepath.Join(profile, "DevToolsActivePort"))
		port, path, ok := strings.Cut(strings.TrimSpace(string(content)), "\n")
		address = "ws://127.0.0.1:" + port + path
		return err == nil && ok
	}, answers, 100*time.Millisecond, "Chromium does not start")
	socket, err := websocket.Dial(address, "", "http://127.0.0.1")
	require.NoError(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	b := &browser{t: t, socket: socket}
	var target struct{ TargetID, SessionID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	b.session = target.SessionID
	for _, domain := range []string{"Page", "Network", "Log", "Runtime"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

// call makes a call and waits for its answer. What the browser says meanwhile is noted.
func (b *browser) call(method string, params, result any) {
	b.t.Helper()
	b.last++
	require.NoError(b.t, b.socket.SetDeadline(time.Now().Add(answers)))
	require.NoError(b.t, websocket.JSON.Send(b.socket, message{ID: b.last, SessionID: b.session, Method: method, Params: params}))
	for {
		answer := b.next()
		if answer.ID != b.last {
			continue
		}
		if answer.Error != nil {
			require.Fail(b.t, method, answer.Error.Message)
		}
		if result != nil {
			require.NoError(b.t, json.Unmarshal(answer.Result, result))
		}
		return
	}
}

func (b *browser) next() message {
	b.t.Helper()
	var raw []byte
	require.NoError(b.t, websocket.Message.Receive(b.socket, &raw))
	var event struct {
		message
		Params struct {
			Request struct{ URL string }
			Entry   struct{ Level, Text string }
		} `json:"params"`
	}
	require.NoError(b.t, json.Unmarshal(raw, &event))
	switch event.Method {
	case "Network.requestWillBeSent":
		b.requests = append(b.requests, event.Params.Request.URL)
	case "Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled":
		b.problems = append(b.problems, string(raw))
	}
	return event.message
}

// open shows a page of so many pixels in a colour scheme, and returns when it is loaded.
func (b *browser) open(url, scheme string, width, height int) {
	b.t.Helper()
	b.call("Emulation.setEmulatedMedia", map[string]any{"media": "", "features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	deadline := time.Now().Add(answers)
	for !evaluate[bool](b, `document.readyState === "complete" && location.href !== "about:blank"`) {
		require.True(b.t, time.Now().Before(deadline), "the page does not load")
		time.Sleep(50 * time.Millisecond)
	}
}

// evaluate returns the value of an expression in the page.
func evaluate[T any](b *browser, expression string) (value T) {
	b.t.Helper()
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &answer)
	require.Empty(b.t, answer.ExceptionDetails, expression)
	require.NoError(b.t, json.Unmarshal(answer.Result.Value, &value), "%s is %s", expression, answer.Result.Value)
	return value
}

// screenshot returns a PNG of so much of the top of the page.
func (b *browser) screenshot(width, height int) []byte {
	b.t.Helper()
	var shot struct{ Data []byte }
	b.call("Page.captureScreenshot", map[string]any{"format": "png", "clip": map[string]any{"x": 0, "y": 0, "width": width, "height": height, "scale": 1}, "captureBeyondViewport": true}, &shot)
	return shot.Data
}

// pdf returns the page as it is printed.
func (b *browser) pdf() []byte {
	b.t.Helper()
	var printed struct{ Data []byte }
	b.call("Page.printToPDF", map[string]any{"paperWidth": 8.27, "paperHeight": 11.69}, &printed)
	return printed.Data
}
