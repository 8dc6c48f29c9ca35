// Package steps is the loop of every Go program: one step per line of standard input, one result
// per line of standard output.
package steps

import (
	"bufio"
	"encoding/json"
	"os"
	"runtime/debug"
	"time"
)

// Wait is how long a client may take for one step.
const Wait = 15 * time.Second

// Header is a name and a value, which may be null; it travels as an array of two.
type Header struct {
	Name  string
	Value []byte
}

func (h Header) MarshalJSON() ([]byte, error) { return json.Marshal([]any{h.Name, h.Value}) }

func (h *Header) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&h.Name, &h.Value})
}

// Record travels with its key and value in base64, or null.
type Record struct {
	Offset    int64    `json:"offset"`
	Timestamp int64    `json:"timestamp"`
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []Header `json:"headers"`
}

// Step is what a program is told to do.
type Step struct {
	Do         string            `json:"do"`
	Topic      string            `json:"topic"`
	Partitions int32             `json:"partitions"`
	Config     map[string]string `json:"config"`
	Broker     *int32            `json:"broker"`
	Codec      string            `json:"codec"`
	Acks       string            `json:"acks"`
	Idempotent bool              `json:"idempotent"`
	Records    []Record          `json:"records"`
	Offset     int64             `json:"offset"`
	Count      int               `json:"count"`
	At         []int64           `json:"at"`
	Before     int64             `json:"before"`
}

// Result is what a program answers.
type Result map[string]any

// Version is that of a module which this program was built with.
func Version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, one := range info.Deps {
		if one.Path == module {
			return one.Version[1:]
		}
	}
	return "unknown"
}

// Run serves steps until standard input ends.
func Run(do func(Step) (Result, error)) {
	lines := bufio.NewReader(os.Stdin)
	results := json.NewEncoder(os.Stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var step Step
		result := Result{}
		if err = json.Unmarshal(line, &step); err == nil {
			result, err = do(step)
		}
		if err != nil {
			result = Result{"error": err.Error()}
		} else if result == nil {
			result = Result{}
		}
		if err := results.Encode(result); err != nil {
			return
		}
	}
}
