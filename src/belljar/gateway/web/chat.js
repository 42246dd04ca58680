// A chat: its turns, each a response that goes on by itself on the server and can be watched, left and taken up again.

import { Fault } from "./api.js";
import { Turn } from "./turn.js";

const OUTPUTS = "code_interpreter_call.outputs";
const ENDS = new Set(["response.completed", "response.failed", "response.incomplete"]);
const GOING = new Set(["queued", "in_progress"]);
const FILES = new Set(["input_file", "input_image"]);
const PICTURE = /\.(png|jpe?g|gif|webp)$/i;
const LARGEST_PICTURE = 5 * 2 ** 20;
const ATTEMPTS = 12;
const LONGEST_PAUSE = 5000;
const PATIENCE = 3000;

export class Chat {
  #api;
  #memory;
  #page;
  #record;
  #run = null;
  #loading = false;
  #gone = false;

  /** `page`: painter, thread, save, interpreter, model, and `changed`, `kept`, `heard`, `giveBack`, `say`. */
  constructor(api, memory, page, record) {
    this.#api = api;
    this.#memory = memory;
    this.#page = page;
    this.#record = record;
  }

  get id() {
    return this.#record.id;
  }

  /** Whether an answer is under way. */
  get busy() {
    return this.#run !== null;
  }

  /** Whether all that was said is shown, so that something can be said to it. */
  get ready() {
    return !this.#loading;
  }

  get model() {
    return this.#record.model;
  }

  /** Nobody looks any more; what is under way goes on on the server, and is listened to until it has a name. */
  leave() {
    this.#gone = true;
    if (this.#run?.id) this.#run.aborting.abort();
  }

  // -- what was -------------------------------------------------------------------------------------------------------

  /** Show all turns as the server has them, and go on watching one that is under way. */
  async load() {
    const turns = this.#record.turns;
    this.#loading = true;
    const found = await Promise.all(turns.map((one) => (typeof one === "string" ? this.#recall(one) : { asked: one })));
    if (this.#gone) return;
    this.#loading = false;
    for (const [at, { asked, response, error }] of found.entries()) {
      const turn = this.#show(asked);
      const last = at === found.length - 1;
      if (error) turn.fail(error.message);
      else if (!response) turn.fail("This was not sent.", last ? this.#again(turn, asked) : []);
      else if (GOING.has(response.status) && last) this.#watch(turn, asked, { id: response.id });
      else this.#settle(turn, asked, response, last);
    }
    this.#page.changed();
  }

  async #recall(id) {
    try {
      const [response, items] = await Promise.all([
        this.#api.get(`v1/responses/${id}?include[]=${OUTPUTS}`),
        this.#api.get(`v1/responses/${id}/input_items?order=asc&limit=100`),
      ]);
      return { response, asked: { ...(await this.#said(items.data)), model: response.model } };
    } catch (error) {
      const message = error.status === 404 ? "This part of the chat is no longer on the server." : error.message;
      return { asked: { text: "", files: [] }, error: new Fault(message) };
    }
  }

  async #said(items) {
    const parts = items
      .filter((item) => item.type === "message" && item.role === "user")
      .flatMap((item) =>
        typeof item.content === "string" ? [{ type: "input_text", text: item.content }] : item.content,
      );
    const texts = parts.filter((part) => part.type === "input_text").map((part) => part.text);
    const attached = parts.filter((part) => FILES.has(part.type) && part.file_id);
    const ids = new Set(attached.map((part) => part.file_id));
    const files = [...ids].map(async (id) => {
      try {
        const file = await this.#api.get(`v1/files/${id}`);
        return { id, name: file.filename, size: file.bytes };
      } catch {
        return { id, name: "a file that was deleted" };
      }
    });
    return { text: texts.join("\n\n"), files: await Promise.all(files) };
  }

  // -- what is asked --------------------------------------------------------------------------------------------------

  /** Ask: `{text, files, model}`. */
  async send(asked) {
    for (const old of this.#page.thread.querySelectorAll(".trouble button")) old.remove();
    this.#record.model = asked.model;
    this.#record.title ||= (headline(asked.text) || asked.files[0]?.name || "").slice(0, 80);
    const turn = this.#show(asked);
    await this.#watch(turn, asked, {});
  }

  /** End what is under way; what there is of it is kept. */
  async stop() {
    const run = this.#run;
    if (!run || run.stopped) return;
    run.stopped = true;
    run.turn.wait("Stopping …");
    if (run.id === null) setTimeout(() => run.id === null && run.aborting.abort(), PATIENCE);
    else await this.#cancel(run);
  }

  async #cancel(run) {
    try {
      await this.#api.post(`v1/responses/${run.id}/cancel`);
    } catch {
      // It was over already, or the stream will tell why not.
    }
    run.aborting.abort();
  }

  #body(asked) {
    const code = this.#page.interpreter;
    const files = asked.files.flatMap((one) => {
      const shown = isPicture(one);
      return [
        ...(code || !shown ? [{ type: "input_file", file_id: one.id }] : []),
        ...(shown ? [{ type: "input_image", file_id: one.id, detail: "auto" }] : []),
      ];
    });
    const text = asked.text ? [{ type: "input_text", text: asked.text }] : [];
    const before = this.#record.turns.filter((one) => typeof one === "string").at(-1);
    return {
      model: asked.model,
      input: [{ role: "user", content: [...text, ...files] }],
      previous_response_id: before,
      tools: code ? [{ type: "code_interpreter", container: { type: "auto" } }] : [],
      include: [OUTPUTS],
      stream: true,
      background: true,
    };
  }

  /** Ask, or take up what is under way as `id` and was seen up to `last`; follow it to its end. */
  async #watch(turn, asked, { id = null, last = -1 }) {
    const run = { turn, id, last, aborting: new AbortController(), stopped: false };
    this.#run = run;
    turn.calm();
    turn.wait();
    this.#page.changed();
    let place = this.#record.turns.length - 1;
    if (id === null) {
      const body = this.#body(asked);
      place = this.#record.turns.push(asked) - 1;
      this.#keep();
      run.open = () => this.#api.stream("POST", "v1/responses", { body, signal: run.aborting.signal });
    }
    const named = (found) => {
      run.id = found;
      this.#record.turns[place] = found;
      if (this.#gone) this.#late(place, found);
      else this.#keep();
      if (run.stopped) this.#cancel(run);
      else if (this.#gone) run.aborting.abort();
    };
    try {
      const response = await this.#follow(run, named);
      if (this.#gone) return;
      this.#settle(turn, asked, response, true);
      this.#page.say(response.status === "completed" ? "The answer is complete." : `The answer is ${response.status}.`);
    } catch (error) {
      if (!this.#gone) await this.#broke(run, asked, error);
    } finally {
      if (this.#run === run) this.#run = null;
      this.#page.changed();
    }
  }

  /** The events to the turn; the response that they end with. A connection that breaks is taken up again. */
  async #follow(run, named) {
    let lost = false;
    for (let attempt = 0; ; attempt += 1) {
      const signal = run.aborting.signal;
      const again = () =>
        this.#api.stream(
          "GET",
          `v1/responses/${run.id}?stream=true${run.last < 0 ? "" : `&starting_after=${run.last}`}`,
          { signal },
        );
      try {
        for await (const event of run.id === null ? run.open() : again()) {
          if (lost) run.turn.wait(null);
          lost = false;
          attempt = 0;
          if (event.response && run.id === null) named(event.response.id);
          if (ENDS.has(event.type)) return event.response;
          if (run.stopped) continue;
          run.last = event.sequence_number ?? run.last;
          run.turn.feed(event);
        }
        break;
      } catch (error) {
        if (error.name === "AbortError" || run.id === null || error.status || attempt >= ATTEMPTS) throw error;
        lost = true;
        run.turn.wait("The connection was lost; trying again …");
        await new Promise((resolve) => setTimeout(resolve, Math.min(LONGEST_PAUSE, 300 * 2 ** attempt)));
      }
    }
    if (run.id === null) throw new Fault("The gateway sent no answer.");
    return this.#api.get(`v1/responses/${run.id}?include[]=${OUTPUTS}`);
  }

  async #broke(run, asked, error) {
    const { turn } = run;
    if (run.stopped && run.id === null) {
      this.#record.turns = this.#record.turns.filter((one) => one !== asked);
      this.#keep();
      turn.element.remove();
      this.#page.giveBack(asked);
      return;
    }
    if (run.stopped && error.name === "AbortError") {
      try {
        const response = await this.#api.get(`v1/responses/${run.id}?include[]=${OUTPUTS}`);
        if (!GOING.has(response.status)) return this.#settle(turn, asked, response, true);
        error = new Fault("It could not be stopped.");
      } catch (other) {
        error = other;
      }
    }
    if (run.id === null) turn.fail(error.message, this.#again(turn, asked));
    else turn.fail(error.message, [["Look again", () => this.#watch(turn, asked, run), "retry"]]);
  }

  // -- what came of it ------------------------------------------------------------------------------------------------

  #settle(turn, asked, response, last) {
    turn.settle(response);
    if (response.status === "failed") {
      turn.fail(response.error?.message ?? "It failed.", last ? this.#again(turn, asked) : []);
    } else if (response.status === "incomplete") {
      turn.fail(`The answer was cut off (${response.incomplete_details?.reason ?? "unknown reason"}).`, [], "note");
    } else if (response.status === "cancelled") turn.fail("Stopped.", last ? this.#again(turn, asked) : [], "note");
  }

  /** The remedies of a turn that is the last: ask the same anew, or change it first. */
  #again(turn, asked) {
    const drop = () => {
      this.#record.turns.pop();
      this.#keep();
      turn.element.remove();
    };
    const again = () => {
      drop();
      this.send({ ...asked, model: this.#page.model });
    };
    const change = () => {
      drop();
      this.#page.giveBack(asked);
    };
    return [
      ["Try again", again, "retry"],
      ["Change it", change, "edit"],
    ];
  }

  #show(asked) {
    const turn = new Turn(this.#page.painter, this.#api, asked, this.#page.save);
    this.#page.thread.append(turn.element);
    return turn;
  }

  /** A name that came when nobody looked: for whoever comes back, if the chat is still to have it. */
  #late(turn, id) {
    if (this.#memory.name(this.id, turn, id)) this.#page.heard(this.id);
    else this.#api.delete(`v1/responses/${id}`).catch(() => {});
  }

  #keep() {
    this.#memory.keep(this.#record);
    this.#page.kept();
  }
}

/** Whether a model that sees is to be shown it: providers take these kinds, up to about this size. */
function isPicture({ name, size }) {
  return PICTURE.test(name) && size > 0 && size <= LARGEST_PICTURE;
}

/** The first line that says something: not the fence of some code. */
function headline(text) {
  return text.split("\n").find((line) => line.trim() && !line.trimStart().startsWith("```"))?.trim();
}
