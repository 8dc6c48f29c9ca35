// kafkajs over SASL_SSL: orders in the environment, one line with the outcome of each call.
"use strict";

const kafkajs = require("kafkajs");

const orders = JSON.parse(process.env.INTEROP_ORDERS);
const kafka = new kafkajs.Kafka({
  ...orders.Settings,
  clientId: "interop",
  retry: { retries: 3 },
  // Standard output is for results.
  logCreator: () => ({ log }) => process.stderr.write(`${log.message}\n`),
});
const messages = Array.from({ length: orders.Count }, (_, number) => ({ value: String(number) }));

async function using(client, work) {
  try {
    await client.connect();
    await work(client);
  } finally {
    await client.disconnect();
  }
}

const calls = {
  produce: () =>
    using(kafka.producer({ idempotent: true }), (one) =>
      one.send({ topic: orders.Topic, acks: -1, messages }),
    ),
  group: () =>
    using(kafka.consumer({ groupId: orders.Group, retry: { retries: 1 } }), async (one) => {
      await one.subscribe({ topics: [orders.Topic], fromBeginning: true });
      await new Promise((resolve, reject) => {
        let left = orders.Count;
        one.on(one.events.CRASH, ({ payload }) => reject(payload.error));
        setTimeout(() => reject(new Error(`${left} records have not come`)), 20_000).unref();
        one
          .run({
            eachMessage: async () => {
              left -= 1;
              if (left === 0) resolve();
            },
          })
          .catch(reject);
      });
    }),
  transaction: () =>
    using(
      kafka.producer({ idempotent: true, transactionalId: orders.TransactionalID }),
      async (one) => {
        const transaction = await one.transaction();
        await transaction.send({ topic: orders.Topic, acks: -1, messages });
        await transaction.commit();
      },
    ),
  admin: () =>
    using(kafka.admin(), (one) =>
      one.createTopics({ topics: [{ topic: orders.NewTopic, replicationFactor: 1 }] }),
    ),
};

async function main() {
  const outcomes = {};
  for (const name of orders.Calls) {
    try {
      await calls[name]();
      outcomes[name] = "ok";
    } catch (error) {
      outcomes[name] = [error, ...(error.errors ?? [])].map(String).join("; ");
    }
  }
  process.stdout.write(`${JSON.stringify(outcomes)}\n`);
  process.exit(0);
}

main();
