// franz-go as a member of a group: orders as an argument, events on standard output.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"
)

type orders struct {
	Group       string   `json:"group"`
	Topics      []string `json:"topics"`
	Strategy    string   `json:"strategy"`
	Instance    *string  `json:"instance"`
	SessionMs   int64    `json:"session_ms"`
	HeartbeatMs int64    `json:"heartbeat_ms"`
	PaceMs      int64    `json:"pace_ms"`
	Batch       int      `json:"batch"`
}

var balancers = map[string]func() kgo.GroupBalancer{
	"range":              kgo.RangeBalancer,
	"roundrobin":         kgo.RoundRobinBalancer,
	"sticky":             kgo.StickyBalancer,
	"cooperative-sticky": kgo.CooperativeStickyBalancer,
}

type event map[string]any

// place is where to go on reading; standard input says it in a line.
type place struct {
	topic     string
	partition int32
	offset    int64
}

var output sync.Mutex

// tell writes one event with a time of the machine's monotonic clock.
func tell(name string, fields event) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	fields["event"], fields["time"] = name, float64(now.Nano())/1e9
	output.Lock()
	defer output.Unlock()
	if err := json.NewEncoder(os.Stdout).Encode(fields); err != nil {
		panic(err)
	}
}

// tellChange is a hook of the client: partitions that were given or taken.
func tellChange(name string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
		var partitions [][]any
		for topic, numbers := range changed {
			for _, number := range numbers {
				partitions = append(partitions, []any{topic, number})
			}
		}
		if len(partitions) > 0 {
			tell(name, event{"partitions": partitions})
		}
	}
}

func main() {
	given := orders{SessionMs: 10_000, HeartbeatMs: 300, Batch: 500}
	if err := json.Unmarshal([]byte(os.Args[2]), &given); err != nil {
		panic(err)
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(os.Args[1]),
		kgo.ConsumerGroup(given.Group),
		kgo.ConsumeTopics(given.Topics...),
		kgo.Balancers(balancers[given.Strategy]()),
		kgo.SessionTimeout(time.Duration(given.SessionMs) * time.Millisecond),
		kgo.HeartbeatInterval(time.Duration(given.HeartbeatMs) * time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		// A rebalance waits until what was polled is committed.
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(tellChange("assigned")),
		kgo.OnPartitionsRevoked(tellChange("revoked")),
		kgo.OnPartitionsLost(tellChange("lost")),
	}
	if given.Instance != nil {
		options = append(options, kgo.InstanceID(*given.Instance))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		panic(err)
	}
	seeks := make(chan place, 10)
	ctx, leave := context.WithCancel(context.Background())
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			var to place
			if err := json.Unmarshal(lines.Bytes(), &[]any{&to.topic, &to.partition, &to.offset}); err != nil {
				panic(err)
			}
			seeks <- to
		}
		leave()
	}()
	for ctx.Err() == nil {
		for len(seeks) > 0 {
			to := <-seeks
			client.SetOffsets(map[string]map[int32]kgo.EpochOffset{
				to.topic: {to.partition: {Epoch: -1, Offset: to.offset}},
			})
			tell("sought", event{})
		}
		read(ctx, client, given)
		client.AllowRebalance()
	}
	client.Close()
	tell("left", event{})
}

// read polls once, tells what came and commits it.
func read(ctx context.Context, client *kgo.Client, given orders) {
	soon, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	fetches := client.PollRecords(soon, given.Batch)
	if ctx.Err() != nil {
		return
	}
	fetches.EachError(func(topic string, partition int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) {
			tell("error", event{"text": err.Error()})
		}
	})
	if fetches.NumRecords() == 0 {
		return
	}
	fetches.EachPartition(func(part kgo.FetchTopicPartition) {
		if count := len(part.Records); count > 0 {
			tell("read", event{
				"topic": part.Topic, "partition": part.Partition, "count": count,
				"first": part.Records[0].Offset, "last": part.Records[count-1].Offset,
			})
		}
	})
	if err := client.CommitUncommittedOffsets(context.Background()); err != nil {
		tell("commit failed", event{"text": err.Error()})
	}
	time.Sleep(time.Duration(given.PaceMs) * time.Millisecond)
}
