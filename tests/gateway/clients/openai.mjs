// A session with openai for Node, as its user would write it; prints what it saw as JSON. Argument: the base URL.
import { File as NodeFile } from "node:buffer";
import OpenAI, { toFile } from "openai";

globalThis.File ??= NodeFile; // Node 18 has it, but not as a global

const client = new OpenAI({ baseURL: process.argv[2], apiKey: "none", maxRetries: 0 });
const tools = [{ type: "code_interpreter", container: { type: "auto" } }];
const include = ["code_interpreter_call.outputs"];

const made = await client.responses.create({ model: "sim", input: "make a file", tools, include });

const kinds = [];
const stream = client.responses.stream({ model: "sim", input: "read it", tools, include, previous_response_id: made.id });
for await (const event of stream) kinds.push(event.type);
const streamed = await stream.finalResponse();

const [citation] = made.output.at(-1).content[0].annotations;
const downloaded = await client.containers.files.content.retrieve(citation.file_id, {
  container_id: citation.container_id,
});

const container = await client.containers.create({ name: "from Node" });
const upload = await client.files.create({ file: await toFile(Buffer.from("1,2\n"), "zwölf.csv"), purpose: "user_data" });
const put = await client.containers.files.create(container.id, {
  file: await toFile(Buffer.from("sent as a form"), "日本語 ü.txt"),
});
const attached = await client.containers.files.create(container.id, { file_id: upload.id });
const sent = await client.containers.files.content.retrieve(put.id, { container_id: container.id });
const files = [];
for await (const file of client.containers.files.list(container.id)) files.push(file.path);

let refused;
try {
  await client.responses.create({ model: "nobody", input: "go" });
} catch (error) {
  refused = [error.constructor.name, error.status, error.code, error.param];
}

console.log(
  JSON.stringify({
    text: made.output_text,
    output: made.output,
    kinds,
    streamed: streamed.output,
    downloaded: await downloaded.text(),
    upload: upload.filename,
    put: put.path,
    attached: attached.path,
    sent: await sent.text(),
    disposition: sent.headers.get("content-disposition"),
    files,
    refused,
  }),
);
