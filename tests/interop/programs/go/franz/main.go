// franz-go: steps on standard input, results on standard output.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"interop/steps"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	// Administrative calls answer from metadata of up to this age; tests ask for what is true now.
	fresh := kgo.MetadataMinAge(10 * time.Millisecond)
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Args[1]), fresh)
	if err != nil {
		panic(err)
	}
	admin := kadm.NewClient(client)
	steps.Run(func(step steps.Step) (steps.Result, error) {
		ctx, cancel := context.WithTimeout(context.Background(), steps.Wait)
		defer cancel()
		switch step.Do {
		case "hello":
			version := steps.Version("github.com/twmb/franz-go")
			return steps.Result{"client": "franz_go", "version": version}, nil
		case "produce":
			return nil, produce(ctx, step)
		case "consume":
			return consume(ctx, step)
		}
		return administer(ctx, admin, step)
	})
}

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

var acks = map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}

func produce(ctx context.Context, step steps.Step) error {
	options := []kgo.Opt{
		kgo.SeedBrokers(os.Args[1]),
		kgo.RequiredAcks(acks[step.Acks]),
		kgo.ProducerBatchCompression(codecs[step.Codec]),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(20 * time.Millisecond),
		kgo.AllowAutoTopicCreation(),
	}
	if !step.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	records := make([]*kgo.Record, 0, len(step.Records))
	for _, one := range step.Records {
		record := &kgo.Record{
			Topic: step.Topic, Key: one.Key, Value: one.Value,
			Timestamp: time.UnixMilli(one.Timestamp),
		}
		for _, header := range one.Headers {
			record.Headers = append(record.Headers,
				kgo.RecordHeader{Key: header.Name, Value: header.Value})
		}
		records = append(records, record)
	}
	return client.ProduceSync(ctx, records...).FirstErr()
}

func consume(ctx context.Context, step steps.Step) (steps.Result, error) {
	from := map[string]map[int32]kgo.Offset{step.Topic: {0: kgo.NewOffset().At(step.Offset)}}
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Args[1]), kgo.ConsumePartitions(from))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	found := []steps.Record{}
	for len(found) < step.Count {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("%d read, then %w", len(found), err)
		}
		for _, one := range fetches.Records() {
			record := steps.Record{
				Offset: one.Offset, Timestamp: one.Timestamp.UnixMilli(),
				Key: one.Key, Value: one.Value, Headers: []steps.Header{},
			}
			for _, header := range one.Headers {
				record.Headers = append(record.Headers,
					steps.Header{Name: header.Key, Value: header.Value})
			}
			found = append(found, record)
		}
	}
	return steps.Result{"records": found[:step.Count]}, nil
}

func administer(ctx context.Context, admin *kadm.Client, step steps.Step) (steps.Result, error) {
	switch step.Do {
	case "create":
		config := map[string]*string{}
		for name, value := range step.Config {
			config[name] = &value
		}
		_, err := admin.CreateTopic(ctx, step.Partitions, 1, config, step.Topic)
		return nil, err
	case "delete":
		_, err := admin.DeleteTopic(ctx, step.Topic)
		return nil, err
	case "topics":
		found, err := admin.ListTopics(ctx)
		return steps.Result{"topics": found.Names()}, err
	case "describe":
		found, err := admin.ListTopics(ctx, step.Topic)
		return steps.Result{"partitions": len(found[step.Topic].Partitions)}, err
	case "grow":
		found, err := admin.UpdatePartitions(ctx, int(step.Partitions), step.Topic)
		if err == nil {
			err = found.Error()
		}
		return nil, err
	case "offsets":
		return offsets(ctx, admin, step)
	case "delete_records":
		var before kadm.Offsets
		before.AddOffset(step.Topic, 0, step.Before, -1)
		found, err := admin.DeleteRecords(ctx, before)
		if err != nil {
			return nil, err
		}
		one, _ := found.Lookup(step.Topic, 0)
		return steps.Result{"low_watermark": one.LowWatermark}, one.Err
	}
	return configure(ctx, admin, step)
}

func offsets(ctx context.Context, admin *kadm.Client, step steps.Step) (steps.Result, error) {
	start, err := admin.ListStartOffsets(ctx, step.Topic)
	if err != nil {
		return nil, err
	}
	end, err := admin.ListEndOffsets(ctx, step.Topic)
	if err != nil {
		return nil, err
	}
	found := []int64{}
	for _, at := range step.At {
		listed, err := admin.ListOffsetsAfterMilli(ctx, at, step.Topic)
		if err != nil {
			return nil, err
		}
		one, _ := listed.Lookup(step.Topic, 0)
		// After the last record this client gives the end; its timestamp tells them apart.
		if one.Timestamp == -1 {
			one.Offset = -1
		}
		found = append(found, one.Offset)
	}
	first, _ := start.Lookup(step.Topic, 0)
	last, _ := end.Lookup(step.Topic, 0)
	return steps.Result{"first": first.Offset, "last": last.Offset, "offsets": found}, nil
}

func configure(ctx context.Context, admin *kadm.Client, step steps.Step) (steps.Result, error) {
	changes := []kadm.AlterConfig{}
	for name, value := range step.Config {
		changes = append(changes, kadm.AlterConfig{Name: name, Value: &value})
	}
	switch step.Do {
	case "describe_configs":
		var found kadm.ResourceConfigs
		var err error
		if step.Broker != nil {
			found, err = admin.DescribeBrokerConfigs(ctx, *step.Broker)
		} else {
			found, err = admin.DescribeTopicConfigs(ctx, step.Topic)
		}
		if err != nil {
			return nil, err
		}
		config := map[string]*string{}
		for _, one := range found[0].Configs {
			config[one.Key] = one.Value
		}
		return steps.Result{"config": config}, found[0].Err
	case "alter_configs":
		found, err := admin.AlterTopicConfigsState(ctx, changes, step.Topic)
		if err != nil {
			return nil, err
		}
		return nil, found[0].Err
	case "incremental_alter_configs":
		found, err := admin.AlterTopicConfigs(ctx, changes, step.Topic)
		if err != nil {
			return nil, err
		}
		return nil, found[0].Err
	}
	return nil, fmt.Errorf("no step %s", strconv.Quote(step.Do))
}
