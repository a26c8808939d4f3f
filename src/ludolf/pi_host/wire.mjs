// The three pipes to Ludolf: OUT is written blocking, IN is read by the event loop, SYNC is read
// blocking while a question waits for its answer.
import fs from "node:fs";
import net from "node:net";

const MERGE_AFTER = 64;

export class Wire {
  constructor(out, input, sync) {
    this.out = out;
    this.input = input;
    this.sync = sync;
    this.question = 0;
    this.rest = Buffer.alloc(0);
    this.block = Buffer.allocUnsafe(1 << 16);
    // Status, widget and title of one task: many of them are merged by key.
    this.notices = 0;
    this.merged = new Map();
  }

  // Throws the error of JSON.stringify at the caller: circular values, BigInt.
  send(frame) {
    const text = JSON.stringify(frame);
    if (this.merged.size) this.flush();
    this.write(text);
  }

  // Sends a notice of which only the last one of a key counts.
  sendLast(key, frame) {
    if (this.notices === 0) setImmediate(() => this.endTask());
    this.notices += 1;
    if (this.notices <= MERGE_AFTER) return this.send(frame);
    this.merged.delete(key);
    this.merged.set(key, JSON.stringify(frame));
  }

  endTask() {
    this.notices = 0;
    this.flush();
  }

  flush() {
    const texts = [...this.merged.values()];
    this.merged.clear();
    for (const text of texts) this.write(text);
  }

  write(text) {
    let data = Buffer.from(`${text}\n`, "utf8");
    while (data.length) data = data.subarray(this.writeSome(data));
  }

  writeSome(data) {
    try {
      return fs.writeSync(this.out, data);
    } catch (error) {
      if (error.code === "EAGAIN") return 0;
      process.reallyExit(0); // Ludolf has ended
    }
  }

  // Asks a question and blocks until Ludolf has answered it.
  ask(frame) {
    const n = ++this.question;
    this.send({ t: "sync", n, ...frame });
    for (;;) {
      const answer = JSON.parse(this.readLine());
      if (answer.n !== n) continue;
      if (answer.e !== undefined) throw new Error(answer.e);
      return answer.v;
    }
  }

  readLine() {
    const pieces = [this.rest];
    let end = this.rest.indexOf(10);
    while (end < 0) {
      const size = fs.readSync(this.sync, this.block, 0, this.block.length, null);
      if (size === 0) process.reallyExit(0);
      const piece = Buffer.from(this.block.subarray(0, size));
      pieces.push(piece);
      end = piece.indexOf(10);
    }
    const last = pieces.pop();
    this.rest = last.subarray(end + 1);
    return Buffer.concat([...pieces, last.subarray(0, end)]).toString("utf8");
  }

  // Passes frames to `take` in order; ends the process with the pipe.
  listen(take) {
    const socket = new net.Socket({ fd: this.input, readable: true, writable: false });
    let pieces = [];
    socket.on("data", (chunk) => {
      let start = 0;
      for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
        pieces.push(chunk.subarray(start, end));
        const line = pieces.length === 1 ? pieces[0] : Buffer.concat(pieces);
        pieces = [];
        start = end + 1;
        take(JSON.parse(line.toString("utf8")));
      }
      if (start < chunk.length) pieces.push(chunk.subarray(start));
    });
    socket.on("error", () => process.reallyExit(0));
    socket.on("end", () => process.reallyExit(0));
  }
}
