// The gateway's API as this page calls it: with a key where one is asked for; its errors are the server's own words.

import { events } from "./events.js";

/** What the server said went wrong, or why there is no answer at all. */
export class Fault extends Error {
  constructor(message, { status = 0, code = null } = {}) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

const UNREACHABLE = "The gateway does not answer. Is it still running?";

async function fault(answer) {
  let error = {};
  try {
    error = (await answer.json()).error ?? {};
  } catch {
    // Whatever stands between us and the gateway answered in its own words.
  }
  return new Fault(error.message ?? `The gateway answered ${answer.status}.`, {
    status: answer.status,
    code: error.code,
  });
}

export class Api {
  #base;
  #askForKey;
  #asking = null;

  /** `askForKey` resolves to the key that the user gave; it is called when the server asks for one. */
  constructor(base, keys, askForKey) {
    this.#base = base;
    this.keys = keys;
    this.#askForKey = askForKey;
  }

  address(path) {
    return new URL(path, this.#base).href;
  }

  async #fetch(method, path, { body, signal, accept } = {}) {
    for (;;) {
      const key = this.keys.get();
      const headers = key ? { Authorization: `Bearer ${key}` } : {};
      if (body !== undefined) headers["Content-Type"] = "application/json";
      if (accept) Object.assign(headers, { Accept: accept, "belljar-live-output": "true" });
      let answer;
      try {
        answer = await fetch(this.address(path), {
          method,
          headers,
          signal,
          body: body === undefined ? undefined : JSON.stringify(body),
        });
      } catch (error) {
        if (error.name === "AbortError") throw error;
        throw new Fault(UNREACHABLE);
      }
      if (answer.ok) return answer;
      const wrong = await fault(answer);
      if (answer.status !== 401) throw wrong;
      if (key === this.keys.get()) await this.#newKey(wrong.message);
    }
  }

  /** One dialog, however many requests wait for it. */
  #newKey(why) {
    this.#asking ??= this.#askForKey(why).finally(() => (this.#asking = null));
    return this.#asking;
  }

  async get(path, options) {
    return (await this.#fetch("GET", path, options)).json();
  }

  async post(path, body, options) {
    return (await this.#fetch("POST", path, { ...options, body })).json();
  }

  async delete(path) {
    return (await this.#fetch("DELETE", path)).json();
  }

  /** The events of a stream, as they come. */
  async *stream(method, path, options) {
    const answer = await this.#fetch(method, path, { ...options, accept: "text/event-stream" });
    try {
      yield* events(answer.body);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Fault("The connection to the gateway was lost.");
    }
  }

  /** Send a file; `progress` hears of the bytes that are sent. Aborting the signal ends it. */
  upload(file, { progress, signal }) {
    const form = new FormData();
    form.append("purpose", "user_data");
    form.append("file", file, file.name);
    return new Promise((resolve, reject) => {
      // fetch tells nothing of the way up.
      const request = new XMLHttpRequest();
      request.open("POST", this.address("v1/files"));
      const key = this.keys.get();
      if (key) request.setRequestHeader("Authorization", `Bearer ${key}`);
      request.responseType = "json";
      request.upload.addEventListener("progress", (event) => progress(event.loaded / (event.total || 1)));
      request.addEventListener("load", () => {
        if (request.status === 200) return resolve(request.response);
        const error = request.response?.error ?? {};
        reject(new Fault(error.message ?? `The gateway answered ${request.status}.`, { status: request.status }));
      });
      request.addEventListener("error", () => reject(new Fault(`${file.name} could not be sent. ${UNREACHABLE}`)));
      request.addEventListener("abort", () => reject(new DOMException("", "AbortError")));
      signal?.addEventListener("abort", () => request.abort());
      request.send(form);
    });
  }

  async blob(path) {
    return (await this.#fetch("GET", path)).blob();
  }

  /** Hand a file to the browser's downloads: straight from the server where no key has to go with the request. */
  async download(path, name) {
    const link = document.createElement("a");
    link.download = name;
    if (!this.keys.get()) {
      link.href = this.address(path);
      link.click();
      return;
    }
    link.href = URL.createObjectURL(await this.blob(path));
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }
}

/** The key: for this tab, or for as long as the browser keeps it. */
export class Keys {
  #name = "belljar.key";

  get() {
    return sessionStorage.getItem(this.#name) ?? localStorage.getItem(this.#name);
  }

  set(key, { keep }) {
    this.forget();
    (keep ? localStorage : sessionStorage).setItem(this.#name, key);
  }

  forget() {
    sessionStorage.removeItem(this.#name);
    localStorage.removeItem(this.#name);
  }
}
