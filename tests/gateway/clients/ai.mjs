// A session with the AI SDK, as its user would write it; prints what it saw as JSON. Argument: the base URL.
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const openai = createOpenAI({ baseURL: process.argv[2], apiKey: "none" });
const model = openai.responses("sim");
const tools = {
  code_interpreter: openai.tools.codeInterpreter({}),
  weather: tool({ inputSchema: z.object({ city: z.string() }), execute: async ({ city }) => `warm in ${city}` }),
};
const asked = { model, tools, maxRetries: 0, stopWhen: stepCountIs(3) };
const seen = (results) => results.filter((one) => one.toolName === "code_interpreter").map(({ output }) => output);

const first = await generateText({ ...asked, prompt: "make a file" });

const errors = [];
const history = [{ role: "user", content: "make a file" }, ...first.response.messages, { role: "user", content: "read it" }];
const stream = streamText({ ...asked, messages: history, onError: ({ error }) => errors.push(String(error)) });
const kinds = [];
for await (const part of stream.fullStream) kinds.push(part.type);

console.log(
  JSON.stringify({
    text: first.text,
    warnings: [...(first.warnings ?? []), ...((await stream.warnings) ?? [])],
    outputs: seen(first.steps.flatMap((step) => step.toolResults)),
    sources: first.sources,
    kinds,
    errors,
    streamed: await stream.text,
    again: seen((await stream.steps).flatMap((step) => step.toolResults)),
    usage: await stream.totalUsage,
  }),
);
