// prozess, a client of Kafka 0.7: sends so many messages, then reads the topic from an offset on.
// PORT TOPIC SENT OFFSET READ: OFFSET "earliest" asks the broker. Writes what was read, and where
// the consumer is then.
"use strict";

const Module = require("node:module");

// bignum needs a C++ compiler of its time; the calls that prozess makes are BigInt here.
class Big {
  constructor(value) {
    this.value = BigInt(value instanceof Big ? value.value : value);
  }
  add(other) {
    return new Big(this.value + other.value);
  }
  eq(other) {
    return this.value === new Big(other).value;
  }
  toString() {
    return this.value.toString();
  }
  toBuffer() {
    const made = Buffer.alloc(8);
    made.writeBigInt64BE(this.value);
    return made;
  }
}
const bignum = (value) => new Big(value);
bignum.fromBuffer = (buffer) => new Big(buffer.readBigInt64BE(0));
const load = Module._load;
Module._load = (name, ...rest) => (name === "bignum" ? bignum : load(name, ...rest));

const { Consumer, Producer } = require("prozess");

const [port, topic, sent, offset, read] = process.argv.slice(2);
const where = { host: "127.0.0.1", port: Number(port) };

function check(error) {
  if (error) {
    process.stderr.write(`${error}\n`);
    process.exit(1);
  }
}

function produce(then) {
  const messages = Array.from({ length: Number(sent) }, (_, number) => `sent ${number}`);
  if (!messages.length) {
    then();
    return;
  }
  const producer = new Producer(topic, where);
  producer.on("error", check);
  producer.on("connect", () =>
    producer.send(messages, (error) => {
      check(error);
      then();
    }),
  );
  producer.connect();
}

function consume(consumer, found) {
  consumer.consume((error, messages) => {
    check(error);
    found.push(...messages.map((one) => one.payload.toString()));
    if (found.length < Number(read)) {
      // An answer without messages comes at once.
      setTimeout(() => consume(consumer, found), messages.length ? 0 : 20);
      return;
    }
    const line = JSON.stringify({ found, offset: consumer.offset.toString() });
    process.stdout.write(`${line}\n`, () => process.exit(0));
  });
}

produce(() => {
  // Small answers, so that the last message of most is cut off.
  const consumer = new Consumer({ ...where, topic, maxMessageSize: 1000 });
  consumer.connect((error) => {
    check(error);
    if (offset !== "earliest") {
      consumer.setOffset(offset);
      consume(consumer, []);
      return;
    }
    consumer.getEarliestOffset((wrong, first) => {
      check(wrong);
      consumer.setOffset(first);
      consume(consumer, []);
    });
  });
});
