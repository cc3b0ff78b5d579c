// OpenAI's own client for JavaScript.
import OpenAI from "openai";

const client = new OpenAI();
const asked = { model: "", messages: [{ role: "user", content: process.argv[2] }] };
const whole = (await client.chat.completions.create(asked)).choices[0].message.content;
const pieces = [];
for await (const piece of await client.chat.completions.create({ ...asked, stream: true })) {
  if (piece.choices[0]?.delta?.content) pieces.push(piece.choices[0].delta.content);
}
console.log(JSON.stringify({ whole, streamed: pieces.join(""), pieces: pieces.length }));
