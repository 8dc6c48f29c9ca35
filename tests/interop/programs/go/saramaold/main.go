// sarama as a client of an older Kafka: writes, reads back, commits, prints one line.
//
// Arguments: address, version of Kafka that it is to speak to, codec, topic, number of records.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/IBM/sarama"
)

const wait = 60 * time.Second

var codecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
}

type result struct {
	Same      bool  `json:"same"`
	Committed int64 `json:"committed"`
}

func main() {
	found, err := roundTrip()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	line, _ := json.Marshal(found)
	fmt.Println(string(line))
}

func roundTrip() (*result, error) {
	version, err := sarama.ParseKafkaVersion(os.Args[2])
	if err != nil {
		return nil, err
	}
	count, err := strconv.Atoi(os.Args[5])
	if err != nil {
		return nil, err
	}
	settings := sarama.NewConfig()
	settings.Version = version
	settings.ApiVersionsRequest = false
	settings.Producer.Compression = codecs[os.Args[3]]
	settings.Producer.Partitioner = sarama.NewManualPartitioner
	settings.Producer.Return.Successes = true
	settings.Producer.Flush.Frequency = 20 * time.Millisecond
	client, err := sarama.NewClient([]string{os.Args[1]}, settings)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	written, err := produce(client, os.Args[4], count)
	if err != nil {
		return nil, err
	}
	same, err := consume(client, os.Args[4], written)
	if err != nil {
		return nil, err
	}
	committed, err := commit(client, os.Args[4], int64(count/2))
	return &result{same, committed}, err
}

func produce(client sarama.Client, topic string, count int) ([]*sarama.ProducerMessage, error) {
	producer, err := sarama.NewSyncProducerFromClient(client)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	messages := []*sarama.ProducerMessage{}
	for number := range count {
		messages = append(messages, &sarama.ProducerMessage{
			Topic: topic,
			Key:   sarama.StringEncoder(fmt.Sprintf("k%d", number)),
			Value: sarama.StringEncoder(fmt.Sprintf("v%d", number)),
		})
	}
	return messages, producer.SendMessages(messages)
}

func consume(client sarama.Client, topic string, written []*sarama.ProducerMessage) (bool, error) {
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return false, err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	if err != nil {
		return false, err
	}
	defer partition.Close()
	for _, wanted := range written {
		select {
		case found := <-partition.Messages():
			key, _ := wanted.Key.Encode()
			value, _ := wanted.Value.Encode()
			if found.Offset != wanted.Offset || !bytes.Equal(found.Key, key) ||
				!bytes.Equal(found.Value, value) {
				return false, nil
			}
		case <-time.After(wait):
			return false, fmt.Errorf("nothing at offset %d in time", wanted.Offset)
		}
	}
	return true, nil
}

// commit commits the offset and asks another offset manager for it.
func commit(client sarama.Client, topic string, offset int64) (int64, error) {
	for _, marks := range []bool{true, false} {
		manager, err := sarama.NewOffsetManagerFromClient("group-"+topic, client)
		if err != nil {
			return -1, err
		}
		partition, err := manager.ManagePartition(topic, 0)
		if err != nil {
			return -1, err
		}
		if marks {
			partition.MarkOffset(offset, "")
			manager.Commit()
		}
		found, _ := partition.NextOffset()
		partition.AsyncClose()
		manager.Close()
		if !marks {
			return found, nil
		}
	}
	return -1, nil
}
