// sarama as a consume-transform-produce pipeline: orders as an argument, events on standard output.
package main

import (
	"context"
	"errors"
	"io"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"interop/pipelining"
)

// pipeline carries what its claims bring, one transaction at a time.
type pipeline struct {
	given    pipelining.Orders
	mutex    sync.Mutex
	producer sarama.SyncProducer
}

func main() {
	given := pipelining.Given()
	sarama.Logger = log.New(os.Stderr, "", log.LstdFlags)
	addresses := strings.Split(os.Args[1], ",")
	producer, err := sarama.NewSyncProducer(addresses, writing(given))
	if err != nil {
		panic(err)
	}
	group, err := sarama.NewConsumerGroup(addresses, given.Group, reading(given))
	if err != nil {
		panic(err)
	}
	ctx, leave := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		leave()
	}()
	pipelining.Tell("ready", 0, "")
	handler := &pipeline{given: given, producer: producer}
	for ctx.Err() == nil {
		if err := group.Consume(ctx, []string{given.Source}, handler); err != nil {
			pipelining.Tell("error", 0, err.Error())
			time.Sleep(100 * time.Millisecond)
		}
	}
	_ = group.Close()
	_ = producer.Close()
	pipelining.Tell("left", 0, "")
}

func writing(given pipelining.Orders) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	config.Producer.Transaction.ID = given.TransactionalID
	config.Producer.Transaction.Timeout =
		time.Duration(given.TransactionTimeoutMs) * time.Millisecond
	config.Producer.Transaction.Retry.Backoff = 100 * time.Millisecond
	config.Producer.Retry.Max = 100
	config.Metadata.Retry.Max = 50
	config.Net.MaxOpenRequests = 1
	return config
}

func reading(given pipelining.Orders) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Group.Session.Timeout = time.Duration(given.SessionMs) * time.Millisecond
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	config.Metadata.Retry.Max = 50
	return config
}

func (*pipeline) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*pipeline) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// ConsumeClaim ends the session by its error: the next one begins where the group has committed.
func (p *pipeline) ConsumeClaim(
	session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	for {
		batch := p.gather(session.Context(), claim)
		if len(batch) == 0 {
			return nil
		}
		if err := p.carry(session, batch); err != nil {
			pipelining.Tell("aborting", 0, err.Error())
			return err
		}
		pipelining.Tell("committed", len(batch), "")
	}
}

// gather waits for a record, and then for as many as come soon.
func (p *pipeline) gather(
	ctx context.Context, claim sarama.ConsumerGroupClaim,
) []*sarama.ConsumerMessage {
	var batch []*sarama.ConsumerMessage
	var soon <-chan time.Time
	for len(batch) < p.given.Batch {
		select {
		case <-ctx.Done():
			return nil
		case <-soon:
			return batch
		case message, isOpen := <-claim.Messages():
			if !isOpen {
				return nil
			}
			batch = append(batch, message)
			if soon == nil {
				soon = time.After(500 * time.Millisecond)
			}
		}
	}
	return batch
}

func (p *pipeline) carry(
	session sarama.ConsumerGroupSession, batch []*sarama.ConsumerMessage,
) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if err := p.producer.BeginTxn(); err != nil {
		// It was fenced, or cannot go on for another reason.
		panic(err)
	}
	err := p.write(session, batch)
	if err == nil {
		err = p.end(p.producer.CommitTxn)
	}
	if err == nil {
		return nil
	}
	if p.producer.TxnStatus()&sarama.ProducerTxnFlagFatalError != 0 {
		panic(err)
	}
	if aborting := p.end(p.producer.AbortTxn); aborting != nil {
		panic(aborting)
	}
	return err
}

func (p *pipeline) write(
	session sarama.ConsumerGroupSession, batch []*sarama.ConsumerMessage,
) error {
	messages := make([]*sarama.ProducerMessage, len(batch))
	for i, read := range batch {
		messages[i] = &sarama.ProducerMessage{
			Topic:     p.given.Target,
			Partition: pipelining.PlaceOf(read.Value, p.given.TargetPartitions),
			Value:     sarama.ByteEncoder(read.Value),
		}
	}
	if err := p.producer.SendMessages(messages); err != nil {
		return err
	}
	who := sarama.NewConsumerGroupMetadataFromSession(session, p.given.Group, nil)
	last := batch[len(batch)-1]
	return p.producer.AddMessageToTxnWithGroupMetadata(last, who, nil)
}

// end tries again as long as the client says that this may help.
func (p *pipeline) end(how func() error) error {
	for {
		err := how()
		if err == nil {
			return nil
		}
		status := p.producer.TxnStatus()
		if status&sarama.ProducerTxnFlagFatalError != 0 {
			return err
		}
		if status&sarama.ProducerTxnFlagAbortableError != 0 {
			return errors.Join(errors.New("to be aborted"), err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
