// franz-go over SASL_SSL: orders in the environment, one line with the outcome of each call.
package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"interop/secured"
)

type settings struct {
	SeedBrokers   []string
	DialTLSConfig struct{ RootCAs string }
	SASL          struct{ User, Pass string }
}

func main() {
	var given settings
	orders := secured.Given(&given)
	login := scram.Auth{User: given.SASL.User, Pass: given.SASL.Pass}
	base := []kgo.Opt{
		kgo.SeedBrokers(given.SeedBrokers...),
		kgo.DialTLSConfig(secured.TLS(given.DialTLSConfig.RootCAs)),
		kgo.SASL(login.AsSha256Mechanism()),
		kgo.RetryTimeout(secured.Wait),
		kgo.RecordDeliveryTimeout(secured.Wait),
	}
	secured.Tell(orders, map[string]func() error{
		"produce":     func() error { return produce(base, orders) },
		"group":       func() error { return group(base, orders) },
		"transaction": func() error { return transaction(base, orders) },
		"admin":       func() error { return admin(base, orders) },
	})
}

func records(orders secured.Orders) []*kgo.Record {
	made := []*kgo.Record{}
	for number := range orders.Count {
		value := []byte(fmt.Sprint(number))
		made = append(made, &kgo.Record{Topic: orders.Topic, Value: value})
	}
	return made
}

func limited() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), secured.Wait)
}

func produce(base []kgo.Opt, orders secured.Orders) error {
	ctx, cancel := limited()
	defer cancel()
	client, err := kgo.NewClient(base...)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.ProduceSync(ctx, records(orders)...).FirstErr()
}

func group(base []kgo.Opt, orders secured.Orders) error {
	ctx, cancel := limited()
	defer cancel()
	client, err := kgo.NewClient(append(base, kgo.ConsumerGroup(orders.Group),
		kgo.ConsumeTopics(orders.Topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		return err
	}
	defer client.Close()
	for found := 0; found < orders.Count; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		found += fetches.NumRecords()
	}
	return client.CommitUncommittedOffsets(ctx)
}

func transaction(base []kgo.Opt, orders secured.Orders) error {
	ctx, cancel := limited()
	defer cancel()
	client, err := kgo.NewClient(append(base, kgo.TransactionalID(orders.TransactionalID))...)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	if err := client.ProduceSync(ctx, records(orders)...).FirstErr(); err != nil {
		return err
	}
	return client.EndTransaction(ctx, kgo.TryCommit)
}

func admin(base []kgo.Opt, orders secured.Orders) error {
	ctx, cancel := limited()
	defer cancel()
	client, err := kgo.NewClient(base...)
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = kadm.NewClient(client).CreateTopic(ctx, 1, 1, nil, orders.NewTopic)
	return err
}
