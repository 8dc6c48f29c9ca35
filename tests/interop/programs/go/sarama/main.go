// sarama: steps on standard input, results on standard output.
package main

import (
	"fmt"
	"os"
	"sort"
	"time"

	"interop/steps"

	"github.com/IBM/sarama"
)

func main() {
	steps.Run(func(step steps.Step) (steps.Result, error) {
		switch step.Do {
		case "hello":
			version := steps.Version("github.com/IBM/sarama")
			return steps.Result{"client": "sarama", "version": version}, nil
		case "produce":
			return nil, produce(step)
		case "consume":
			return consume(step)
		case "offsets":
			return offsets(step)
		}
		return administer(step)
	})
}

func config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	return config
}

var codecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

var acks = map[string]sarama.RequiredAcks{
	"0": sarama.NoResponse, "1": sarama.WaitForLocal, "all": sarama.WaitForAll,
}

// nullable gives null for no bytes: an interface that holds a nil slice would not be nil.
func nullable(data []byte) sarama.Encoder {
	if data == nil {
		return nil
	}
	return sarama.ByteEncoder(data)
}

func produce(step steps.Step) error {
	settings := config()
	settings.Producer.RequiredAcks = acks[step.Acks]
	settings.Producer.Compression = codecs[step.Codec]
	settings.Producer.Partitioner = sarama.NewManualPartitioner
	settings.Producer.Return.Successes = true
	settings.Producer.Flush.Frequency = 20 * time.Millisecond
	if step.Idempotent {
		settings.Producer.Idempotent = true
		settings.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewSyncProducer([]string{os.Args[1]}, settings)
	if err != nil {
		return err
	}
	defer producer.Close()
	messages := make([]*sarama.ProducerMessage, 0, len(step.Records))
	for _, one := range step.Records {
		message := &sarama.ProducerMessage{
			Topic: step.Topic, Key: nullable(one.Key), Value: nullable(one.Value),
			Timestamp: time.UnixMilli(one.Timestamp),
		}
		for _, header := range one.Headers {
			message.Headers = append(message.Headers,
				sarama.RecordHeader{Key: []byte(header.Name), Value: header.Value})
		}
		messages = append(messages, message)
	}
	return producer.SendMessages(messages)
}

func consume(step steps.Step) (steps.Result, error) {
	consumer, err := sarama.NewConsumer([]string{os.Args[1]}, config())
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(step.Topic, 0, step.Offset)
	if err != nil {
		return nil, err
	}
	defer partition.Close()
	found := []steps.Record{}
	for len(found) < step.Count {
		select {
		case one := <-partition.Messages():
			record := steps.Record{
				Offset: one.Offset, Timestamp: one.Timestamp.UnixMilli(),
				Key: one.Key, Value: one.Value, Headers: []steps.Header{},
			}
			for _, header := range one.Headers {
				record.Headers = append(record.Headers,
					steps.Header{Name: string(header.Key), Value: header.Value})
			}
			found = append(found, record)
		case <-time.After(steps.Wait):
			return nil, fmt.Errorf("%d records in time", len(found))
		}
	}
	return steps.Result{"records": found}, nil
}

func offsets(step steps.Step) (steps.Result, error) {
	client, err := sarama.NewClient([]string{os.Args[1]}, config())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	at := append([]int64{sarama.OffsetOldest, sarama.OffsetNewest}, step.At...)
	found := []int64{}
	for _, one := range at {
		offset, err := client.GetOffset(step.Topic, 0, one)
		if err != nil {
			return nil, err
		}
		found = append(found, offset)
	}
	return steps.Result{"first": found[0], "last": found[1], "offsets": found[2:]}, nil
}

func administer(step steps.Step) (steps.Result, error) {
	admin, err := sarama.NewClusterAdmin([]string{os.Args[1]}, config())
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	settings := map[string]*string{}
	for name, value := range step.Config {
		settings[name] = &value
	}
	resource := sarama.ConfigResource{Type: sarama.TopicResource, Name: step.Topic}
	if step.Broker != nil {
		resource = sarama.ConfigResource{
			Type: sarama.BrokerResource, Name: fmt.Sprint(*step.Broker),
		}
	}
	switch step.Do {
	case "create":
		return nil, admin.CreateTopic(step.Topic, &sarama.TopicDetail{
			NumPartitions: step.Partitions, ReplicationFactor: 1, ConfigEntries: settings,
		}, false)
	case "delete":
		return nil, admin.DeleteTopic(step.Topic)
	case "topics":
		found, err := admin.ListTopics()
		names := []string{}
		for name := range found {
			names = append(names, name)
		}
		sort.Strings(names)
		return steps.Result{"topics": names}, err
	case "describe":
		found, err := admin.DescribeTopics([]string{step.Topic})
		if err != nil {
			return nil, err
		}
		return steps.Result{"partitions": len(found[0].Partitions)}, nil
	case "grow":
		return nil, admin.CreatePartitions(step.Topic, step.Partitions, nil, false)
	case "describe_configs":
		found, err := admin.DescribeConfig(resource)
		config := map[string]string{}
		for _, one := range found {
			config[one.Name] = one.Value
		}
		return steps.Result{"config": config}, err
	case "alter_configs":
		return nil, admin.AlterConfig(resource.Type, resource.Name, settings, false)
	case "incremental_alter_configs":
		changes := map[string]sarama.IncrementalAlterConfigsEntry{}
		for name, value := range settings {
			changes[name] = sarama.IncrementalAlterConfigsEntry{
				Operation: sarama.IncrementalAlterConfigsOperationSet, Value: value,
			}
		}
		return nil, admin.IncrementalAlterConfig(resource.Type, resource.Name, changes, false)
	case "delete_records":
		err := admin.DeleteRecords(step.Topic, map[int32]int64{0: step.Before})
		return steps.Result{"low_watermark": nil}, err
	}
	return nil, fmt.Errorf("no step %s", step.Do)
}
