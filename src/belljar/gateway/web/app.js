// The page: puts its parts together and passes on what the user does.

import { Api, Keys } from "./api.js";
import { Attachments, given } from "./attachments.js";
import { REMEDIES } from "./cell.js";
import { Chat } from "./chat.js";
import { askForKey, confirm, showApi } from "./dialogs.js";
import { button, icon, make, Painter, unique } from "./dom.js";
import { Memory } from "./memory.js";
import { choose, save } from "./project.js";
import { samplesFor } from "./samples.js";

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
  #refused = null;

  constructor() {
    this.api = new Api(BASE, this.#keys, (why) => askForKey(this.#keys, why));
    this.thread = find("thread");
    this.painter = new Painter();
    this.interpreter = true;
    this.packages = [];
    this.save = null;
    this.attachments = new Attachments(this.api, this.#limits, () => this.#drafted());
    find("attached").append(this.attachments.element);
    this.#dress();
    this.#listen();
  }

  async start() {
    this.#listChats();
    this.#take(this.#memory.draft(this.#place));
    addEventListener("hashchange", () => (this.#chat ? this.#open() : this.#take(this.#memory.draft(this.#place))));
    const about = await this.#insist(() => this.api.get("belljar/page"));
    Object.assign(this.#limits, about);
    Object.assign(REMEDIES, about.remedies);
    this.interpreter = about.interpreter;
    this.packages = about.packages;
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
    find("model").disabled = find("look").disabled = false;
    find("model").value = names.includes(this.#memory.model) ? this.#memory.model : fit;
  }

  /** A model server may have started, or loaded another model. What was chosen stays, unless nobody chose it. */
  async #lookAgain() {
    const { model } = this;
    find("look").disabled = true;
    try {
      const { data } = await this.api.get("v1/models");
      this.#listModels(data);
      if (model !== "belljar" || this.#memory.model === model) this.#useModel(model);
      this.#tell(null);
      this.say(data.length === 1 ? "No model but the built-in one is there." : `${data.length} models are there.`);
      this.#welcome();
    } catch (error) {
      this.#tell(error.message);
    }
    find("look").disabled = false;
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
    const turns = this.#memory.chat(chat.id)?.turns ?? [];
    // Forgotten first: a response that the chat hears of only later is then deleted by the chat itself.
    this.#memory.forget(chat.id);
    if (chat.id === this.#chat?.id) {
      this.#chat.leave();
      this.#goTo("");
    }
    this.#listChats();
    for (const id of turns.filter((one) => typeof one === "string"))
      this.api.delete(`v1/responses/${id}`).catch(() => {});
  }

  #goTo(id) {
    if (location.hash.slice(1) !== id) location.hash = id;
    else if (this.#chat) this.#open();
  }

  /** Show the chat that the address names. */
  async #open() {
    const id = location.hash.slice(1);
    if (id && id === this.#chat?.id) return;
    const first = this.#chat === null;
    this.#fold();
    const record = this.#memory.chat(id);
    if (id && !record) history.replaceState(null, "", location.pathname + location.search);
    const shown = this.#show(record);
    this.#useModel(record?.model);
    // What is typed before there is a chat is typed into the first.
    if (!first) this.#take(this.#memory.draft(this.#place));
    this.#listChats();
    this.#welcome();
    await shown;
  }

  /** Show a chat as it is remembered, or a new one. */
  async #show(record) {
    this.#chat?.leave();
    this.thread.replaceChildren();
    this.#chat = new Chat(this.api, this.#memory, this, record ?? { id: unique(), title: "", model: "", turns: [] });
    this.#pinned = true;
    const loaded = record ? this.#chat.load() : null;
    this.changed();
    await loaded;
    this.painter.now();
  }

  #welcome() {
    const fresh = !this.#memory.chat(this.#chat.id);
    find("welcome").hidden = !fresh;
    const ours = this.model === "belljar";
    const samples = this.interpreter ? samplesFor(ours, this.packages) : [];
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
    const empty = this.attachments.ready.length === 0 && !find("message").value.trim();
    find("send").disabled = empty || !this.#chat?.ready;
    const told = find("notice").textContent;
    if (told === this.#refused && told !== this.attachments.problem) this.#tell(null);
  }

  kept() {
    this.#listChats();
  }

  /** A chat that was left has heard what became of its question; whoever has come back to it sees it. */
  heard(id) {
    if (id === this.#chat?.id) this.#show(this.#memory.chat(id));
  }

  /** What was typed and attached goes back to where it was. */
  giveBack({ text, files }) {
    const now = find("message").value;
    this.#put({ text: now && now !== text ? `${text}\n\n${now}` : text, files });
  }

  say(text) {
    find("status").textContent = text;
  }

  // -- the composer ---------------------------------------------------------------------------------------------------

  /** This, and nothing else. */
  #take({ text, files }) {
    find("message").value = text;
    this.attachments.clear();
    this.#put({ text, files });
  }

  /** This text, and these files beside those that are there or on their way. */
  #put({ text, files }) {
    find("message").value = text;
    this.attachments.restore(files);
    this.#grow();
    this.#drafted();
    this.#focus();
  }

  /** To the message, where that does not bring up a keyboard over half of the screen. */
  #focus() {
    if (matchMedia("(hover: hover)").matches) find("message").focus();
  }

  /** Where drafts of this chat are kept. */
  get #place() {
    const id = this.#chat?.id ?? location.hash.slice(1);
    return this.#memory.chat(id) ? id : NEW;
  }

  #drafted() {
    this.#memory.keepDraft(this.#place, { text: find("message").value, files: this.attachments.ready });
    this.changed();
  }

  #send() {
    const text = find("message").value.trim();
    const files = this.attachments.ready;
    if (!this.#chat?.ready || this.#chat.busy || (!text && !files.length)) return;
    this.#refused = this.attachments.problem;
    this.#tell(this.#refused);
    if (this.#refused) return;
    this.#take({ text: "", files: [] });
    find("welcome").hidden = true;
    this.#pinned = true;
    this.#chat.send({ text, files, model: this.model });
    history.replaceState(null, "", `#${this.#chat.id}`);
  }

  #attach({ files, folders }) {
    const named = folders.join(", ");
    // Before there is a chat, what the notice says is how to get one.
    if (this.#chat) this.#tell(named ? `Folders cannot be attached (${named}); choose the files in them.` : null);
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
    const drawn = { menu: "menu", look: "retry", attach: "attach", project: "folder", stop: "stop", send: "send" };
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
    find("look").addEventListener("click", () => this.#lookAgain());
    find("new").addEventListener("click", () => this.#goTo(""));
    // The address names the chat, so the link must not be followed.
    find("skip").addEventListener("click", (event) => (event.preventDefault(), field.focus()));
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
