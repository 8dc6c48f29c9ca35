// sarama over SASL_SSL: orders in the environment, one line with the outcome of each call.
package main

import (
	"context"
	"fmt"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"

	"interop/secured"
)

type settings struct {
	Addrs    []string
	TLS      struct{ RootCAs string } `json:"Net.TLS.Config"`
	User     string                   `json:"Net.SASL.User"`
	Password string                   `json:"Net.SASL.Password"`
}

// login is SCRAM-SHA-256, which sarama wants of its user.
type login struct{ conversation *scram.ClientConversation }

func (one *login) Begin(user, password, authzID string) error {
	client, err := scram.SHA256.NewClient(user, password, authzID)
	if err == nil {
		one.conversation = client.NewConversation()
	}
	return err
}

func (one *login) Step(challenge string) (string, error) { return one.conversation.Step(challenge) }

func (one *login) Done() bool { return one.conversation.Done() }

func main() {
	var given settings
	orders := secured.Given(&given)
	config := func() *sarama.Config {
		made := sarama.NewConfig()
		made.Net.TLS.Enable = true
		made.Net.TLS.Config = secured.TLS(given.TLS.RootCAs)
		made.Net.SASL.Enable = true
		made.Net.SASL.Mechanism = sarama.SASLTypeSCRAMSHA256
		made.Net.SASL.User = given.User
		made.Net.SASL.Password = given.Password
		made.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &login{} }
		made.Producer.Return.Successes = true
		made.Producer.RequiredAcks = sarama.WaitForAll
		made.Producer.Idempotent = true
		made.Net.MaxOpenRequests = 1
		made.Consumer.Offsets.Initial = sarama.OffsetOldest
		return made
	}
	secured.Tell(orders, map[string]func() error{
		"produce":     func() error { return produce(given.Addrs, config(), orders) },
		"group":       func() error { return group(given.Addrs, config(), orders) },
		"transaction": func() error { return transaction(given.Addrs, config(), orders) },
		"admin":       func() error { return admin(given.Addrs, config(), orders) },
	})
}

func messages(orders secured.Orders) []*sarama.ProducerMessage {
	made := []*sarama.ProducerMessage{}
	for number := range orders.Count {
		value := sarama.StringEncoder(fmt.Sprint(number))
		made = append(made, &sarama.ProducerMessage{Topic: orders.Topic, Value: value})
	}
	return made
}

func produce(addresses []string, config *sarama.Config, orders secured.Orders) error {
	producer, err := sarama.NewSyncProducer(addresses, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	return producer.SendMessages(messages(orders))
}

// reader counts records until there are enough.
type reader struct {
	left   int
	enough context.CancelFunc
}

func (*reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (one *reader) ConsumeClaim(
	session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			session.MarkMessage(message, "")
			if one.left--; one.left == 0 {
				session.Commit()
				one.enough()
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

func group(addresses []string, config *sarama.Config, orders secured.Orders) error {
	member, err := sarama.NewConsumerGroup(addresses, orders.Group, config)
	if err != nil {
		return err
	}
	defer member.Close()
	ctx, cancel := context.WithTimeout(context.Background(), secured.Wait)
	defer cancel()
	counting := &reader{left: orders.Count, enough: cancel}
	if err := member.Consume(ctx, []string{orders.Topic}, counting); err != nil {
		return err
	}
	if counting.left > 0 {
		return fmt.Errorf("%d records have not come", counting.left)
	}
	return nil
}

func transaction(addresses []string, config *sarama.Config, orders secured.Orders) error {
	config.Producer.Transaction.ID = orders.TransactionalID
	producer, err := sarama.NewSyncProducer(addresses, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	if err := producer.BeginTxn(); err != nil {
		return err
	}
	if err := producer.SendMessages(messages(orders)); err != nil {
		return err
	}
	return producer.CommitTxn()
}

func admin(addresses []string, config *sarama.Config, orders secured.Orders) error {
	client, err := sarama.NewClusterAdmin(addresses, config)
	if err != nil {
		return err
	}
	defer client.Close()
	detail := &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}
	return client.CreateTopic(orders.NewTopic, detail, false)
}
