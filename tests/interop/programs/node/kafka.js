// kafkajs: steps on standard input, results on standard output.
"use strict";

const readline = require("node:readline");
const kafkajs = require("kafkajs");
const SnappyCodec = require("kafkajs-snappy");
const { version } = require("kafkajs/package.json");

const { CompressionCodecs, CompressionTypes, ConfigResourceTypes } = kafkajs;
CompressionCodecs[CompressionTypes.Snappy] = SnappyCodec;

const WAIT_MS = 15_000;
const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
};
const ACKS = { 0: 0, 1: 1, all: -1 };

const kafka = new kafkajs.Kafka({
  clientId: "interop",
  brokers: [process.argv[2]],
  // Standard output is for results.
  logCreator: () => ({ log }) => process.stderr.write(`${log.message}\n`),
});

const bytes = (text) => (text === null ? null : Buffer.from(text, "base64"));
const text = (data) => (data === null || data === undefined ? null : data.toString("base64"));

/** Headers are an object here, where a name that occurs again has an array of values. */
function headersOf(record) {
  const headers = {};
  for (const [name, value] of record.headers) {
    headers[name] = name in headers ? [headers[name], bytes(value)].flat() : bytes(value);
  }
  return headers;
}

async function produce(step) {
  const producer = kafka.producer({
    idempotent: step.idempotent,
    createPartitioner: () => () => 0,
  });
  await producer.connect();
  try {
    await producer.send({
      topic: step.topic,
      acks: ACKS[step.acks],
      compression: CODECS[step.codec],
      messages: step.records.map((record) => ({
        key: bytes(record.key),
        value: bytes(record.value),
        headers: headersOf(record),
        timestamp: String(record.timestamp),
        partition: 0,
      })),
    });
  } finally {
    await producer.disconnect();
  }
  return {};
}

async function withAdmin(work) {
  const admin = kafka.admin();
  await admin.connect();
  try {
    return await work(admin);
  } finally {
    await admin.disconnect();
  }
}

function resourceOf(step, more) {
  return step.broker === undefined
    ? { type: ConfigResourceTypes.TOPIC, name: step.topic, ...more }
    : { type: ConfigResourceTypes.BROKER, name: String(step.broker), ...more };
}

const entries = (config) => Object.entries(config).map(([name, value]) => ({ name, value }));

async function offsets(admin, step) {
  const [{ high, low }] = await admin.fetchTopicOffsets(step.topic);
  const found = [];
  for (const at of step.at) {
    const [one] = await admin.fetchTopicOffsetsByTimestamp(step.topic, at);
    // After the last record this client gives the end itself.
    found.push(one.offset === high ? -1 : Number(one.offset));
  }
  return { first: Number(low), last: Number(high), offsets: found };
}

const administer = {
  create: async (admin, step) => {
    const topics = [
      {
        topic: step.topic,
        numPartitions: step.partitions,
        replicationFactor: 1,
        configEntries: entries(step.config),
      },
    ];
    // It waits for leaders itself.
    return (await admin.createTopics({ topics })) ? {} : { error: "not created" };
  },
  delete: async (admin, step) => (await admin.deleteTopics({ topics: [step.topic] })) ?? {},
  topics: async (admin) => ({ topics: (await admin.listTopics()).sort() }),
  describe: async (admin, step) => {
    const { topics } = await admin.fetchTopicMetadata({ topics: [step.topic] });
    return { partitions: topics[0].partitions.length };
  },
  grow: async (admin, step) => {
    const topicPartitions = [{ topic: step.topic, count: step.partitions }];
    await admin.createPartitions({ topicPartitions });
    return {};
  },
  offsets,
  describe_configs: async (admin, step) => {
    const found = await admin.describeConfigs({
      resources: [resourceOf(step, {})],
      includeSynonyms: false,
    });
    const pairs = found.resources[0].configEntries.map((one) => [one.configName, one.configValue]);
    return { config: Object.fromEntries(pairs) };
  },
  alter_configs: async (admin, step) => {
    const change = resourceOf(step, { configEntries: entries(step.config) });
    await admin.alterConfigs({ resources: [change] });
    return {};
  },
  delete_records: async (admin, step) => {
    const partitions = [{ partition: 0, offset: String(step.before) }];
    // Without this it does not know the topic's leaders.
    await admin.fetchTopicOffsets(step.topic);
    await admin.deleteTopicRecords({ topic: step.topic, partitions });
    return { low_watermark: null };
  },
};

async function serve(step) {
  if (step.do === "hello") return { client: "kafkajs", version };
  if (step.do === "produce") return produce(step);
  const work = administer[step.do];
  if (work === undefined) throw new Error(`no step ${step.do}`);
  return withAdmin((admin) => work(admin, step));
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    let result;
    try {
      result = await serve(JSON.parse(line));
    } catch (error) {
      process.stderr.write(`${error.stack}\n`);
      result = { error: String(error) };
    }
    process.stdout.write(`${JSON.stringify(result)}\n`);
  }
  process.exit(0);
}

main();
