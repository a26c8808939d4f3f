// Send one prompt to Ludolf from Go, with the standard library only.
//
//	go run . "what is in this folder?" [options of ludolf]
//
// The answer goes to stdout, tool calls go to stderr. Ctrl-C aborts the run; the session is kept.
// Exit code: 0 with an answer, 1 without one, 130 after an abort.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// Frame has the fields of replies and events that this client uses.
type Frame struct {
	Type    string
	ID      string
	Success bool
	Error   string
	Data    struct{ Disposition string }
	Message json.RawMessage              // an object in events, a text in dialogs
	Piece   struct{ Type, Delta string } `json:"assistantMessageEvent"`

	ToolName string
	Args     json.RawMessage
}

// Message has the fields of a message that this client uses.
type Message struct{ Role, StopReason, ErrorMessage string }

var codes = map[string]int{"error": 1, "aborted": 130}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: minimal MESSAGE [options of ludolf]")
		os.Exit(1)
	}
	code, err := ask(os.Args[1], os.Args[2:]...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func ask(message string, options ...string) (int, error) {
	ludolf := exec.Command("ludolf", append([]string{"--mode", "rpc", "--rpc-dialect", "pi-delta"}, options...)...)
	ludolf.Stderr = os.Stderr
	// In a separate group it does not receive the terminal's Ctrl-C; this program handles it.
	ludolf.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, _ := ludolf.StdinPipe()
	stdout, _ := ludolf.StdoutPipe()
	if err := ludolf.Start(); err != nil {
		return 1, err
	}
	// One goroutine writes, so that frames never mix and reading never waits for writing.
	frames := make(chan any, 16)
	go func() {
		defer stdin.Close()
		writer := json.NewEncoder(stdin) // ends each frame with LF
		for frame := range frames {
			writer.Encode(frame)
		}
	}()
	frames <- map[string]any{"id": "1", "type": "prompt", "message": message}
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	reader, done := bufio.NewReader(stdout), make(chan int)
	go func() { done <- follow(reader, frames) }()
	for {
		select {
		case <-interrupts:
			frames <- map[string]any{"type": "abort"}
		case code := <-done:
			close(frames) // orderly shutdown: close stdin, read stdout to its end
			io.Copy(io.Discard, reader)
			ludolf.Wait()
			return code, nil
		}
	}
}

// follow prints events until the prompt is done and returns the exit code.
func follow(reader *bufio.Reader, frames chan<- any) int {
	code := 0
	for {
		line, err := reader.ReadBytes('\n') // a Scanner would fail at 64 KiB
		if err != nil {
			return 1 // the program ended early; the reason is on stderr
		}
		var frame Frame
		if err := json.Unmarshal(line, &frame); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		switch frame.Type {
		case "response":
			if !frame.Success {
				fmt.Fprintln(os.Stderr, frame.Error)
				return 1
			}
			if frame.Data.Disposition == "handled" {
				return 0 // an extension handled the prompt; no run follows
			}
		case "message_update":
			if frame.Piece.Type == "text_delta" {
				fmt.Print(frame.Piece.Delta)
			} else if frame.Piece.Type == "text_end" {
				fmt.Println()
			}
		case "message_end":
			var message Message
			json.Unmarshal(frame.Message, &message)
			if message.Role == "assistant" {
				if code = codes[message.StopReason]; code != 0 {
					fmt.Fprintln(os.Stderr, message.ErrorMessage)
				}
			}
		case "tool_execution_start":
			fmt.Fprintf(os.Stderr, "[%s %s]\n", frame.ToolName, frame.Args)
		case "extension_ui_request": // dismiss dialogs; notices need no answer
			frames <- map[string]any{"type": "extension_ui_response", "id": frame.ID, "cancelled": true}
		case "agent_settled":
			return code
		}
	}
}
