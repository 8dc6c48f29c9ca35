// kafkajs as a consume-transform-produce pipeline: orders as an argument, events on standard output.
"use strict";

const readline = require("node:readline");
const kafkajs = require("kafkajs");

const orders = JSON.parse(process.argv[3]);
const kafka = new kafkajs.Kafka({
  clientId: "interop",
  brokers: process.argv[2].split(","),
  // Standard output is for events.
  logCreator: () => ({ log }) => process.stderr.write(`${log.message} ${log.error ?? ""}\n`),
  retry: { initialRetryTime: 50, retries: 30 },
});

/** One event, with a time of the machine's monotonic clock. */
function tell(event, fields = {}) {
  const time = Number(process.hrtime.bigint()) / 1e9;
  process.stdout.write(`${JSON.stringify({ event, time, ...fields })}\n`);
}

/** Values are "partition:number"; the number says where a record goes. */
function placeOf(value) {
  return Number(value.toString().split(":")[1]) % orders.target_partitions;
}

async function main() {
  const producer = kafka.producer({
    transactionalId: orders.transactional_id,
    transactionTimeout: orders.transaction_timeout_ms,
    idempotent: true,
    maxInFlightRequests: 1,
  });
  const consumer = kafka.consumer({
    groupId: orders.group,
    sessionTimeout: orders.session_ms,
    heartbeatInterval: 500,
    maxWaitTimeInMs: 200,
    readUncommitted: false,
  });
  await producer.connect();
  await consumer.connect();
  await consumer.subscribe({ topics: [orders.source], fromBeginning: true });
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    process.stderr.write(`${payload.error.stack}\n`);
    if (!payload.restart) process.exit(1);
  });
  tell("ready");
  await consumer.run({
    autoCommit: false,
    partitionsConsumedConcurrently: 1,
    eachBatchAutoResolve: false,
    eachBatch: async ({ batch, resolveOffset, heartbeat, isRunning, isStale }) => {
      for (let begin = 0; begin < batch.messages.length; begin += orders.batch) {
        if (!isRunning() || isStale()) return;
        const some = batch.messages.slice(begin, begin + orders.batch);
        await carry(producer, batch, some);
        resolveOffset(some.at(-1).offset);
        await heartbeat();
      }
    },
  });
  readline.createInterface({ input: process.stdin }).on("close", async () => {
    await consumer.disconnect();
    await producer.disconnect();
    tell("left");
    process.exit(0);
  });
}

async function carry(producer, batch, messages) {
  const transaction = await producer.transaction();
  try {
    // One partition at a time. To several brokers it writes at once, and when one of them has to be
    // asked again it writes once more to those that have not answered yet, under new sequence
    // numbers, and not at all to those that have answered but lead more partitions now.
    for (let partition = 0; partition < orders.target_partitions; partition += 1) {
      const here = messages.filter(({ value }) => placeOf(value) === partition);
      if (here.length > 0) {
        await transaction.send({
          topic: orders.target,
          messages: here.map(({ value }) => ({ value, partition })),
        });
      }
    }
    const offset = String(BigInt(messages.at(-1).offset) + 1n);
    await transaction.sendOffsets({
      consumerGroupId: orders.group,
      topics: [{ topic: batch.topic, partitions: [{ partition: batch.partition, offset }] }],
    });
    await transaction.commit();
    tell("committed", { count: messages.length });
  } catch (error) {
    tell("aborting", { text: String(error) });
    await transaction.abort().catch((why) => process.stderr.write(`abort: ${why}\n`));
    // What it would read next is not what the group has committed: whoever starts it again knows.
    process.exit(1);
  }
}

main().catch((error) => {
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
});
