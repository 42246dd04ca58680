// Files on their way in: chosen, dropped, pasted or taken from the project; each with its progress, none lost.

import { button, icon, make } from "./dom.js";
import { size } from "./words.js";

export class Attachments {
  #api;
  #limits;
  #changed;
  #chips = [];

  /** `limits` tells `largest_upload` and `large_upload`; `changed` is called whenever something has. */
  constructor(api, limits, changed) {
    this.#api = api;
    this.#limits = limits;
    this.#changed = changed;
    this.element = make("ul", { class: "chips", ariaLabel: "Attached files" });
  }

  /** Files of this computer. */
  add(files) {
    for (const file of files) {
      const chip = this.#chip(file.name, file.size);
      const { largest_upload: most, large_upload: large } = this.#limits;
      if (file.size > most) {
        this.#say(chip, "refused", `${size(file.size)} is more than the ${size(most)} that this gateway takes`);
      } else if (file.size > large) {
        this.#say(chip, "large", `${size(file.size)} is large`, ["Send it", () => this.#send(chip, file)]);
      } else this.#send(chip, file);
    }
  }

  /** Files that the server fetches itself: `fetch` gives the uploaded file. */
  take(name, bytes, fetch) {
    const chip = this.#chip(name, bytes);
    const attempt = async () => {
      this.#say(chip, "sending", "taking it from the project …");
      try {
        this.#sent(chip, await fetch());
      } catch (error) {
        this.#say(chip, "failed", error.message, ["Try again", attempt]);
      }
    };
    return attempt();
  }

  /** Files that are on the server already. */
  restore(files) {
    for (const file of files)
      this.#sent(this.#chip(file.name, file.size), { id: file.id, filename: file.name, bytes: file.size });
  }

  /** Those that the server has. */
  get ready() {
    return this.#chips.filter((chip) => chip.id).map(({ id, name, bytes }) => ({ id, name, size: bytes }));
  }

  /** Why not all of them can be sent yet; null if they can. */
  get problem() {
    const sending = this.#chips.find((chip) => chip.state === "sending");
    if (sending) return `${sending.name} is still on its way.`;
    const stuck = this.#chips.find((chip) => !chip.id);
    return stuck ? `${stuck.name} was not sent: ${stuck.why}. Remove it, or try again.` : null;
  }

  clear() {
    for (const chip of this.#chips) {
      chip.stop?.();
      chip.element.remove();
    }
    this.#chips = [];
    this.#changed();
  }

  async #send(chip, file) {
    const stopping = new AbortController();
    chip.stop = () => stopping.abort();
    this.#say(chip, "sending", `0 % of ${size(file.size)}`);
    const progress = (part) => {
      chip.bar.value = part;
      chip.said.textContent = part < 1 ? `${Math.floor(part * 100)} % of ${size(file.size)}` : "being stored …";
    };
    try {
      this.#sent(chip, await this.#api.upload(file, { progress, signal: stopping.signal }));
    } catch (error) {
      if (error.name === "AbortError") return;
      this.#say(chip, "failed", error.message, ["Try again", () => this.#send(chip, file)]);
    }
  }

  #sent(chip, uploaded) {
    chip.id = uploaded.id;
    chip.name = uploaded.filename;
    chip.bytes = uploaded.bytes;
    this.#say(chip, "ready", size(uploaded.bytes));
  }

  #chip(name, bytes) {
    const chip = { name, bytes, id: null, state: "", why: "" };
    chip.bar = make("progress", { max: 1, value: 0, ariaLabel: `Sending ${name}` });
    chip.said = make("span", { class: "kind" });
    chip.act = make("span", { class: "act" });
    const remove = button({ label: `Remove ${name}`, icon: "close", class: "quiet" }, () => this.#remove(chip));
    chip.element = make(
      "li",
      { class: "file chip", data: { name } },
      icon("file"),
      make("div", { class: "about" }, make("span", { class: "name", title: name }, name), chip.said, chip.bar),
      chip.act,
      remove,
    );
    this.#chips.push(chip);
    this.element.append(chip.element);
    return chip;
  }

  #say(chip, state, text, remedy = null) {
    chip.state = state;
    chip.why = text;
    chip.element.dataset.state = state;
    chip.said.textContent = text;
    chip.bar.hidden = state !== "sending" || !chip.stop;
    chip.act.replaceChildren(...(remedy ? [button({ label: remedy[0] }, remedy[1])] : []));
    this.#changed();
  }

  #remove(chip) {
    chip.stop?.();
    chip.element.remove();
    this.#chips = this.#chips.filter((one) => one !== chip);
    this.#changed();
  }
}

/** The files of a drop or a paste; folders are named, since they cannot be sent. */
export function given(transfer) {
  const folders = [...(transfer.items ?? [])]
    .map((item) => (item.kind === "file" ? item.webkitGetAsEntry?.() : null))
    .filter((entry) => entry?.isDirectory)
    .map((entry) => entry.name);
  return { files: [...transfer.files].filter((file) => !folders.includes(file.name)), folders };
}
