// Package pipelining is what pipelines share: their orders, the events they tell, where records go.
package pipelining

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Orders are the second argument of the program.
type Orders struct {
	Group                string `json:"group"`
	Source               string `json:"source"`
	Target               string `json:"target"`
	TargetPartitions     int    `json:"target_partitions"`
	TransactionalID      string `json:"transactional_id"`
	Batch                int    `json:"batch"`
	SessionMs            int    `json:"session_ms"`
	TransactionTimeoutMs int    `json:"transaction_timeout_ms"`
}

// Given reads them.
func Given() Orders {
	var given Orders
	if err := json.Unmarshal([]byte(os.Args[2]), &given); err != nil {
		panic(err)
	}
	return given
}

var output sync.Mutex

// Tell writes one event with a time of the machine's monotonic clock.
func Tell(name string, count int, text string) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	event := map[string]any{
		"event": name, "time": float64(now.Nano()) / 1e9, "count": count, "text": text,
	}
	if err := json.NewEncoder(os.Stdout).Encode(event); err != nil {
		panic(err)
	}
}

// PlaceOf says to which partition a value goes, "partition:number", by its number.
func PlaceOf(value []byte, partitions int) int32 {
	_, text, _ := strings.Cut(string(value), ":")
	number, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return int32(number % partitions)
}
