// kafkajs as a member of a group: orders as an argument, events on standard output.
"use strict";

const readline = require("node:readline");
const kafkajs = require("kafkajs");

const orders = JSON.parse(process.argv[3]);

const kafka = new kafkajs.Kafka({
  clientId: "interop",
  brokers: [process.argv[2]],
  // Standard output is for events.
  logCreator: () => ({ log }) => process.stderr.write(`${log.message}\n`),
});

/** One event, with a time of the machine's monotonic clock. */
function tell(event, fields = {}) {
  const time = Number(process.hrtime.bigint()) / 1e9;
  process.stdout.write(`${JSON.stringify({ event, time, ...fields })}\n`);
}

async function main() {
  const consumer = kafka.consumer({
    groupId: orders.group,
    sessionTimeout: orders.session_ms ?? 10_000,
    heartbeatInterval: orders.heartbeat_ms ?? 300,
    metadataMaxAge: 2_000,
    maxWaitTimeInMs: 200,
    retry: { initialRetryTime: 50, retries: 30 },
  });
  let held = [];
  const release = (event) => {
    if (held.length > 0) tell(event, { partitions: held });
    held = [];
  };
  // It has no listener for partitions: its own events come at the same moments.
  consumer.on(consumer.events.REBALANCING, () => release("revoked"));
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    release("lost");
    held = Object.entries(payload.memberAssignment).flatMap(([topic, numbers]) =>
      numbers.map((number) => [topic, number]),
    );
    if (held.length > 0) tell("assigned", { partitions: held });
  });
  await consumer.connect();
  await consumer.subscribe({ topics: orders.topics, fromBeginning: true });
  await consumer.run({
    eachBatchAutoResolve: true,
    eachBatch: async ({ batch }) => {
      if (batch.messages.length === 0) return;
      tell("read", {
        topic: batch.topic,
        partition: batch.partition,
        first: Number(batch.firstOffset()),
        last: Number(batch.lastOffset()),
        count: batch.messages.length,
      });
      await new Promise((resolve) => setTimeout(resolve, orders.pace_ms ?? 0));
    },
  });
  const lines = readline.createInterface({ input: process.stdin });
  // Each says where to go on reading.
  lines.on("line", (line) => {
    const [topic, partition, offset] = JSON.parse(line);
    consumer.seek({ topic, partition, offset: String(offset) });
    tell("sought");
  });
  lines.on("close", async () => {
    await consumer.disconnect();
    tell("left");
    process.exit(0);
  });
}

main().catch((error) => {
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
});
