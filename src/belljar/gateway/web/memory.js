// What this browser remembers: which chats there are, by the ids of their responses, and what is typed and not sent.
// What was said stays on the server.

const CHATS = "belljar.chats";
const DRAFTS = "belljar.drafts";
const MODEL = "belljar.model";
const MOST = 200;

function read(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(name)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

function write(name, value) {
  try {
    localStorage.setItem(name, JSON.stringify(value));
  } catch {
    // A browser that keeps nothing still chats.
  }
}

export class Memory {
  /** Newest first: `{id, title, model, turns, at}`; a turn is a response's id, or what could not be sent. */
  chats() {
    return read(CHATS, []);
  }

  chat(id) {
    return this.chats().find((one) => one.id === id) ?? null;
  }

  keep(chat) {
    const others = this.chats().filter((one) => one.id !== chat.id);
    write(CHATS, [{ ...chat, at: Date.now() }, ...others].slice(0, MOST));
  }

  /** A turn was sent after all, as this response. Whether the chat and the turn are still there. */
  name(id, at, response) {
    const chats = this.chats();
    const turns = chats.find((one) => one.id === id)?.turns ?? [];
    if (typeof turns[at] !== "object") return false;
    turns[at] = response;
    write(CHATS, chats);
    return true;
  }

  forget(id) {
    write(
      CHATS,
      this.chats().filter((one) => one.id !== id),
    );
    this.keepDraft(id, null);
  }

  /** Text and uploaded files that are not sent. */
  draft(id) {
    return read(DRAFTS, {})[id] ?? { text: "", files: [] };
  }

  keepDraft(id, draft) {
    const drafts = read(DRAFTS, {});
    if (draft && (draft.text || draft.files.length)) drafts[id] = draft;
    else delete drafts[id];
    write(DRAFTS, drafts);
  }

  get model() {
    return read(MODEL, null);
  }

  set model(name) {
    write(MODEL, name);
  }
}
