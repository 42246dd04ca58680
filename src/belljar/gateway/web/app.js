// The page: puts its parts together and passes on what the user does.

import { Api, Keys } from "./api.js";
import { Attachments, given } from "./attachments.js";
import { Chat } from "./chat.js";
import { askForKey, confirm, showApi } from "./dialogs.js";
import { button, icon, make, Painter, unique } from "./dom.js";
import { Memory } from "./memory.js";
import { choose, save } from "./project.js";
import { SAMPLES } from "./samples.js";

const BASE = new URL("..", import.meta.url);
const NEW = "new";
const NOT_FOR_CHATS = /embed|rerank|whisper|tts|dall-e|image|moderation|transcri|davinci|babbage|realtime/i;
const find = (id) => document.getElementById(id);

class Page {
  #keys = new Keys();
  #memory = new Memory();
  #limits = { largest_upload: Infinity, large_upload: Infinity };
  #chat = null;
  #pinned = true;

  constructor() {
    this.api = new Api(BASE, this.#keys, (why) => askForKey(this.#keys, why));
    this.thread = find("thread");
    this.painter = new Painter();
    this.interpreter = true;
    this.save = null;
    this.attachments = new Attachments(this.api, this.#limits, () => this.#drafted());
    find("attached").append(this.attachments.element);
    this.#dress();
    this.#listen();
  }

  async start() {
    this.#listChats();
    const about = await this.#insist(() => this.api.get("belljar/page"));
    Object.assign(this.#limits, about);
    this.interpreter = about.interpreter;
    if (about.project) {
      this.save = (container, files) => save(this.api, container, files);
      find("project").hidden = false;
      find("project").addEventListener("click", () => this.#browse(about.project));
    }
    find("isolation").textContent = about.interpreter
      ? `Isolation on this host: ${about.isolation}.`
      : "The code interpreter is switched off here.";
    const { data } = await this.#insist(() => this.api.get("v1/models"));
    this.#listModels(data);
    addEventListener("hashchange", () => this.#open());
    await this.#open();
  }

  /** Until it works: without this there is no page. */
  async #insist(act) {
    for (;;) {
      try {
        return await act();
      } catch (error) {
        await new Promise((resolve) => this.#tell(error.message, ["Try again", resolve]));
        this.#tell(null);
      }
    }
  }

  // -- models and chats -----------------------------------------------------------------------------------------------

  get model() {
    return find("model").value;
  }

  #listModels(models) {
    const owners = Map.groupBy?.(models, (one) => one.owned_by) ?? new Map([["", models]]);
    const groups = [...owners].map(([owner, some]) =>
      make(
        "optgroup",
        { label: owner },
        some.map((one) => make("option", { value: one.id }, one.id)),
      ),
    );
    const names = models.map((one) => one.id);
    const fit = models.find((one) => one.owned_by !== "belljar" && !NOT_FOR_CHATS.test(one.id))?.id ?? names[0];
    find("model").replaceChildren(...groups);
    find("model").disabled = false;
    find("model").value = names.includes(this.#memory.model) ? this.#memory.model : fit;
  }

  #useModel(name) {
    const select = find("model");
    if (name && [...select.options].some((one) => one.value === name)) select.value = name;
  }

  #listChats() {
    const chats = this.#memory.chats();
    const items = chats.map((chat) =>
      make(
        "li",
        {},
        make(
          "a",
          { href: `#${chat.id}`, ariaCurrent: chat.id === this.#chat?.id ? "page" : null, title: chat.title },
          chat.title || "A chat",
        ),
        button({ label: `Delete ${chat.title}`, icon: "remove", class: "quiet" }, () => this.#delete(chat)),
      ),
    );
    find("chats").replaceChildren(
      make("h2", {}, "Chats"),
      chats.length
        ? make("ul", {}, items)
        : make("p", { class: "hint" }, "Chats that you begin are listed here, by this browser alone."),
    );
  }

  async #delete(chat) {
    const sure = await confirm(
      "Delete this chat?",
      `“${chat.title}” is removed from this browser and its responses from the gateway.`,
      "Delete",
    );
    if (!sure) return;
    for (const id of chat.turns.filter((one) => typeof one === "string"))
      await this.api.delete(`v1/responses/${id}`).catch(() => {});
    this.#memory.forget(chat.id);
    if (chat.id === this.#chat?.id) this.#goTo("");
    this.#listChats();
  }

  #goTo(id) {
    if (location.hash.slice(1) === id) this.#open();
    else location.hash = id;
  }

  /** Show the chat that the address names. */
  async #open() {
    const id = location.hash.slice(1);
    if (id && id === this.#chat?.id) return;
    this.#chat?.leave();
    this.thread.replaceChildren();
    this.#fold();
    const record = this.#memory.chat(id);
    this.#chat = new Chat(this.api, this.#memory, this, record ?? { id: unique(), title: "", model: "", turns: [] });
    if (id && !record) history.replaceState(null, "", location.pathname + location.search);
    this.#useModel(record?.model);
    this.#take(this.#memory.draft(record ? id : NEW));
    this.#listChats();
    this.#welcome();
    this.changed();
    this.#pinned = true;
    if (record) await this.#chat.load();
    this.painter.now();
  }

  #welcome() {
    const fresh = !this.#memory.chat(this.#chat.id);
    find("welcome").hidden = !fresh;
    const ours = this.model === "belljar";
    const samples = this.interpreter ? SAMPLES[ours ? "belljar" : "other"] : [];
    find("samples").replaceChildren(
      ...samples.map(([title, text]) =>
        make(
          "button",
          { type: "button", class: "sample", on: { click: () => this.giveBack({ text, files: [] }) } },
          make("strong", {}, title),
          make(ours ? "code" : "span", {}, text),
        ),
      ),
    );
  }

  // -- what the chat asks of the page ---------------------------------------------------------------------------------

  changed() {
    const busy = this.#chat?.busy ?? false;
    find("stop").hidden = !busy;
    find("send").hidden = busy;
    find("send").disabled = this.attachments.ready.length === 0 && !find("message").value.trim();
  }

  kept(record) {
    if (location.hash.slice(1) !== record.id && this.#chat?.id === record.id)
      history.replaceState(null, "", `#${record.id}`);
    this.#listChats();
  }

  /** What was typed and attached goes back to where it was. */
  giveBack({ text, files }) {
    const now = find("message").value;
    this.#take({
      text: now && now !== text ? `${text}\n\n${now}` : text,
      files: [...files, ...this.attachments.ready],
    });
  }

  say(text) {
    find("status").textContent = text;
  }

  // -- the composer ---------------------------------------------------------------------------------------------------

  #take({ text, files }) {
    find("message").value = text;
    this.attachments.clear();
    this.attachments.restore(files);
    this.#grow();
    this.#drafted();
    this.#focus();
  }

  /** To the message, where that does not bring up a keyboard over half of the screen. */
  #focus() {
    if (matchMedia("(hover: hover)").matches) find("message").focus();
  }

  #drafted() {
    if (this.#chat) {
      const id = this.#memory.chat(this.#chat.id) ? this.#chat.id : NEW;
      this.#memory.keepDraft(id, { text: find("message").value, files: this.attachments.ready });
    }
    this.changed();
  }

  #send() {
    const text = find("message").value.trim();
    const files = this.attachments.ready;
    if (this.#chat.busy || (!text && !files.length)) return;
    if (this.attachments.problem) return this.#tell(this.attachments.problem);
    this.#tell(null);
    this.#take({ text: "", files: [] });
    find("welcome").hidden = true;
    this.#pinned = true;
    this.#chat.send({ text, files, model: this.model });
  }

  #attach({ files, folders }) {
    this.#tell(folders.length ? `Folders cannot be attached (${folders.join(", ")}); choose the files in them.` : null);
    this.attachments.add(files);
  }

  async #browse(root) {
    for (const file of await choose(this.api, root, this.#limits)) {
      this.attachments.take(file.name, file.size, () => this.api.post("belljar/project/attach", { path: file.path }));
    }
    this.#focus();
  }

  /** A notice above the message; null for none. */
  #tell(text, remedy = null) {
    const notice = find("notice");
    notice.hidden = text === null;
    notice.replaceChildren(text ?? "", ...(remedy ? [" ", button({ label: remedy[0] }, remedy[1])] : []));
  }

  #grow() {
    const field = find("message");
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight, innerHeight * 0.4)}px`;
  }

  // -- events ---------------------------------------------------------------------------------------------------------

  #dress() {
    const drawn = { menu: "menu", attach: "attach", project: "folder", stop: "stop", send: "send" };
    for (const [id, name] of Object.entries(drawn)) find(id).append(icon(name));
    find("api").append(icon("code"), make("span", {}, "API"));
    find("new").append(icon("plus"), make("span", {}, "New chat"));
  }

  #fold(open = false) {
    document.body.classList.toggle("menu", open);
    find("menu").ariaExpanded = String(open);
  }

  #listen() {
    const field = find("message");
    field.addEventListener("input", () => (this.#grow(), this.#drafted()));
    field.addEventListener("keydown", (event) => {
      // While a word is composed, as in Japanese, Enter ends the word.
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.#send();
    });
    field.addEventListener("paste", (event) => {
      const found = given(event.clipboardData);
      if (!found.files.length) return;
      event.preventDefault();
      this.#attach(found);
    });
    find("composer").addEventListener("submit", (event) => (event.preventDefault(), this.#send()));
    find("stop").addEventListener("click", () => this.#chat.stop());
    find("attach").addEventListener("click", () => find("picker").click());
    find("picker").addEventListener("change", () => {
      this.#attach({ files: [...find("picker").files], folders: [] });
      find("picker").value = "";
      this.#focus();
    });
    find("model").addEventListener("change", () => {
      this.#memory.model = this.model;
      this.#welcome();
    });
    find("new").addEventListener("click", () => this.#goTo(""));
    find("api").addEventListener("click", () =>
      showApi(BASE, this.model, Boolean(this.#keys.get()), () => (this.#keys.forget(), location.reload())),
    );
    find("menu").addEventListener("click", () => this.#fold(!document.body.classList.contains("menu")));
    addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || document.querySelector("dialog[open]")) return;
      if (document.body.classList.contains("menu")) this.#fold();
      else this.#chat?.stop();
    });
    let before = scrollY;
    addEventListener("scroll", () => {
      // Only who goes up leaves the end: by the time that a scroll is told, the thread may have grown below it.
      const { scrollHeight, clientHeight } = document.documentElement;
      if (scrollHeight - clientHeight - scrollY < 60) this.#pinned = true;
      else if (scrollY < before) this.#pinned = false;
      before = scrollY;
    });
    // Whoever reads the end sees what comes; whoever reads elsewhere is not moved.
    new ResizeObserver(() => {
      if (this.#pinned) scrollTo({ top: document.documentElement.scrollHeight, behavior: "instant" });
    }).observe(this.thread);
    this.#listenToDrops();
  }

  #listenToDrops() {
    let inside = 0;
    const over = (by) => {
      inside = Math.max(0, inside + by);
      find("drop").hidden = inside === 0;
    };
    const holds = (event) => event.dataTransfer?.types.includes("Files");
    addEventListener("dragenter", (event) => holds(event) && (event.preventDefault(), over(1)));
    addEventListener("dragover", (event) => holds(event) && event.preventDefault());
    addEventListener("dragleave", (event) => holds(event) && over(-1));
    addEventListener("drop", (event) => {
      if (!holds(event)) return;
      event.preventDefault();
      over(-inside);
      this.#attach(given(event.dataTransfer));
    });
  }
}

new Page().start();
