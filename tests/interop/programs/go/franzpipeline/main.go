// franz-go as a consume-transform-produce pipeline: orders as an argument, events on standard output.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"interop/pipelining"
)

func main() {
	given := pipelining.Given()
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(strings.Split(os.Args[1], ",")...),
		kgo.TransactionalID(given.TransactionalID),
		kgo.TransactionTimeout(time.Duration(given.TransactionTimeoutMs)*time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumerGroup(given.Group),
		kgo.ConsumeTopics(given.Source),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.SessionTimeout(time.Duration(given.SessionMs)*time.Millisecond),
		kgo.HeartbeatInterval(500*time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		panic(err)
	}
	ctx, leave := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		leave()
	}()
	pipelining.Tell("ready", 0, "")
	for ctx.Err() == nil {
		step(ctx, session, given)
	}
	session.Close()
	pipelining.Tell("left", 0, "")
}

// step polls once and carries what came over.
func step(ctx context.Context, session *kgo.GroupTransactSession, given pipelining.Orders) {
	soon, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	fetches := session.PollRecords(soon, given.Batch)
	if ctx.Err() != nil || fetches.NumRecords() == 0 {
		return
	}
	fetches.EachError(func(topic string, partition int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) {
			pipelining.Tell("error", 0, err.Error())
		}
	})
	if err := session.Begin(); err != nil {
		panic(err)
	}
	promise := kgo.AbortingFirstErrPromise(session.Client())
	fetches.EachRecord(func(record *kgo.Record) {
		place := pipelining.PlaceOf(record.Value, given.TargetPartitions)
		made := &kgo.Record{Topic: given.Target, Partition: place, Value: record.Value}
		session.Produce(context.Background(), made, promise.Promise())
	})
	failed := promise.Err()
	committed, err := session.End(context.Background(), failed == nil)
	switch {
	case err != nil:
		// Nothing but a new session helps.
		panic(err)
	case committed:
		pipelining.Tell("committed", fetches.NumRecords(), "")
	case failed != nil:
		pipelining.Tell("aborting", 0, failed.Error())
	default:
		pipelining.Tell("aborting", 0, "the group has changed")
	}
}
