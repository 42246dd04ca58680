// Markdown on the page: values to nodes, drawn again only where they changed. Text stays text.

import { button, make } from "./dom.js";
import { coloured } from "./highlight.js";
import { blocks, spans } from "./markdown.js";

const SANDBOX = /^sandbox:(?:\/\/)?\/?(?:mnt\/data\/)?/;

/** The path in the container that a link names; null for other links. Models spell it escaped, or not. */
export function sandboxed(url) {
  if (!url.startsWith("sandbox:")) return null;
  const path = url.replace(SANDBOX, "");
  try {
    return [path, decodeURIComponent(path)];
  } catch {
    return [path, path];
  }
}

/** A text that grows, drawn as it does: blocks that stay the same keep their nodes. */
export class Markdown {
  #drawn = [];
  #files;

  /** `files` opens what `sandbox:` links name: `download(spellings)`; `picture(spellings)` gives an image's address. */
  constructor(files) {
    this.#files = files;
    this.element = make("div", { class: "markdown" });
  }

  set(text) {
    const fresh = blocks(text);
    let same = 0;
    while (same < fresh.length && this.#drawn[same]?.source === fresh[same].source) same += 1;
    for (const gone of this.#drawn.splice(same)) gone.node.remove();
    for (const block of fresh.slice(same)) {
      const node = this.#block(block);
      this.#drawn.push({ source: block.source, node });
      this.element.append(node);
    }
  }

  #block(block) {
    switch (block.type) {
      case "code":
        return codeBlock(block.text, block.language);
      case "heading":
        return make(`h${Math.min(6, block.level + 2)}`, { class: `level${block.level}` }, this.#spans(block.text));
      case "rule":
        return make("hr");
      case "quote":
        return make(
          "blockquote",
          {},
          block.blocks.map((one) => this.#block(one)),
        );
      case "list":
        return this.#list(block);
      case "table":
        return this.#table(block);
      default:
        return make("p", {}, this.#spans(block.text));
    }
  }

  #list({ ordered, start, items }) {
    const tight = (inside) =>
      inside.flatMap((one) => (one.type === "paragraph" ? this.#spans(one.text) : [this.#block(one)]));
    const listed = items.map((inside) => {
      const loose = inside.filter((one) => one.type === "paragraph").length > 1;
      return make("li", {}, loose ? inside.map((one) => this.#block(one)) : tight(inside));
    });
    return make(ordered ? "ol" : "ul", ordered && start !== 1 ? { start } : {}, listed);
  }

  #table({ head, align, rows }) {
    const row = (tag, texts) =>
      make(
        "tr",
        {},
        texts.map((text, column) => make(tag, { class: align[column] }, this.#spans(text))),
      );
    const whole = make(
      "table",
      {},
      make("thead", {}, row("th", head)),
      make(
        "tbody",
        {},
        rows.map((one) => row("td", one)),
      ),
    );
    return make("div", { class: "table", tabIndex: 0, role: "region", ariaLabel: "Table" }, whole);
  }

  #spans(text) {
    return spans(text).map((span) => this.#span(span));
  }

  #span(span) {
    switch (span.type) {
      case "text":
        return document.createTextNode(span.text);
      case "code":
        return make("code", {}, span.text);
      case "break":
        return make("br");
      case "link":
        return this.#link(
          span.url,
          span.spans.map((one) => this.#span(one)),
        );
      case "image":
        return this.#image(span);
      default:
        return make(
          span.type,
          {},
          span.spans.map((one) => this.#span(one)),
        );
    }
  }

  #link(url, inside) {
    const paths = sandboxed(url);
    if (paths) {
      return make(
        "button",
        {
          type: "button",
          class: "link",
          title: `Download ${paths[1]}`,
          on: { click: () => this.#files.download(paths) },
        },
        inside,
      );
    }
    if (!/^(?:https?:\/\/|mailto:)/i.test(url)) return make("span", { title: url }, inside);
    return make("a", { href: url, target: "_blank", rel: "noopener noreferrer", title: url }, inside);
  }

  /** Pictures of the container are shown; those elsewhere are links: an answer must not make this page call others. */
  #image({ url, text }) {
    const paths = sandboxed(url);
    if (!paths) return this.#link(url, [document.createTextNode(text || url)]);
    const image = make("img", { alt: text || paths[1], class: "picture" });
    this.#files.picture(paths).then(
      (address) => (image.src = address),
      () => image.replaceWith(this.#link(url, [text || paths[1]])),
    );
    return image;
  }
}

/** Code with a button that copies it. */
export function codeBlock(text, language = "") {
  const code = make("code", {}, coloured(text, language || "text"));
  return make(
    "div",
    { class: "code" },
    make("pre", { tabIndex: 0, ariaLabel: "Code" }, code),
    copier(() => text),
  );
}

export function copier(text) {
  const pressed = button({ label: "Copy", icon: "copy", class: "quiet copy" }, async () => {
    try {
      await navigator.clipboard.writeText(text());
      pressed.classList.add("done");
    } catch {
      pressed.classList.add("failed");
    }
    setTimeout(() => pressed.classList.remove("done", "failed"), 1500);
  });
  return pressed;
}
