// Files that code made: a card each with name, size and type, to be downloaded or saved into the project.

import { button, icon, make } from "./dom.js";
import { count, size } from "./words.js";

/** What a response's code made, found in its container. */
export class Files {
  #api;
  #save;
  #known = new Map();
  #ids = new Set();
  #paths = new Set();
  #container = null;

  /** `save(container, files)` asks and saves; null where there is no project. */
  constructor(api, save) {
    this.#api = api;
    this.#save = save;
    this.element = make("section", { class: "files", hidden: true, ariaLabel: "Files" });
    this.trouble = make("p", { class: "error", role: "alert", hidden: true });
  }

  /** An item that may name files. */
  look(item) {
    if (item.type === "code_interpreter_call") {
      if (item.container_id) this.#container = item.container_id;
      for (const path of item.belljar?.files ?? []) this.#paths.add(path.replace(/^\/mnt\/data\//, ""));
    }
    for (const part of Array.isArray(item.content) ? item.content : []) {
      for (const one of part.annotations ?? []) {
        if (one.type !== "container_file_citation") continue;
        this.#container = one.container_id;
        this.#ids.add(one.file_id);
      }
    }
  }

  /** Fetch what there is of them, and show it. */
  async show() {
    if (!this.#container || !(this.#ids.size || this.#paths.size)) return;
    try {
      await this.#fetch();
    } catch (error) {
      const again = button({ label: "Try again", class: "quiet" }, () => this.show());
      this.element.replaceChildren(
        make("p", { class: "error" }, `The files cannot be listed: ${error.message} `, again),
      );
      this.element.hidden = false;
      return;
    }
    const shown = [...this.#known.values()].filter((one) => this.#ids.has(one.id) || this.#paths.has(one.path));
    this.element.hidden = !shown.length;
    this.element.replaceChildren(
      ...shown.map((one) => this.#card(one)),
      ...(shown.length > 1 ? [this.#all(shown)] : []),
    );
  }

  /** The file of a `sandbox:` link. */
  async download(spellings) {
    await this.#guard(async () => this.#get(await this.#find(spellings)));
  }

  /** An address that shows a picture of the container. */
  async picture(spellings) {
    const file = await this.#find(spellings);
    return URL.createObjectURL(await this.#api.blob(content(file)));
  }

  async #find(spellings) {
    const there = () =>
      [...this.#known.values()].find((one) => spellings.includes(one.path) || spellings.includes(one.name));
    if (!there() && this.#container) await this.#fetch();
    const file = there();
    if (!file) throw new Error(`There is no file ${spellings[1]} in the container.`);
    return file;
  }

  async #fetch() {
    const { data } = await this.#api.get(`belljar/containers/${this.#container}/files`);
    this.#known = new Map(data.map((one) => [one.id, one]));
  }

  async #get(file) {
    await this.#api.download(content(file), file.name.split("/").at(-1));
  }

  async #guard(act) {
    this.trouble.hidden = true;
    try {
      await act();
    } catch (error) {
      this.trouble.textContent = error.message;
      this.trouble.hidden = false;
    }
  }

  #card(file) {
    const kind = `${size(file.size)} · ${file.type.split(";")[0]}`;
    return make(
      "div",
      { class: "file", data: { name: file.name } },
      icon("file"),
      make(
        "div",
        { class: "about" },
        make("span", { class: "name", title: file.shown }, file.shown),
        make("span", { class: "kind", title: kind }, kind),
        warning(file),
      ),
      button({ label: "Download", icon: "download", ariaLabel: `Download ${file.shown}`, class: "quiet" }, () =>
        this.#guard(() => this.#get(file)),
      ),
      this.#save &&
        button(
          { label: "Save to project", icon: "save", ariaLabel: `Save ${file.shown} to the project`, class: "quiet" },
          () => this.#guard(() => this.#save(file.container_id, [file])),
        ),
    );
  }

  /** What can be done with all of them. */
  #all(shown) {
    const query = shown.map((one) => `file_id=${encodeURIComponent(one.id)}`).join("&");
    const zip = `belljar/containers/${this.#container}/zip?${query}`;
    const left = shown.filter((one) => one.refused).length;
    return make(
      "div",
      { class: "all" },
      make("span", {}, count(shown.length, "file"), left ? `, ${left} left out of what is downloaded together` : ""),
      button({ label: "Download all", icon: "download", words: true, class: "quiet" }, () =>
        this.#guard(() => this.#api.download(zip, "files.zip")),
      ),
      this.#save &&
        button({ label: "Save all to project", icon: "save", words: true, class: "quiet" }, () =>
          this.#guard(() => this.#save(this.#container, shown)),
        ),
    );
  }
}

/** What tools do with a file of this name, unasked: the server knows. */
function warning(file) {
  const said = file.refused ?? file.warning;
  return said ? make("span", { class: "warning" }, `Careful: ${said}.`) : null;
}

function content(file) {
  return `v1/containers/${file.container_id}/files/${file.id}/content`;
}
