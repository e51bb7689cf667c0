// Takes the packages' funding pages out of package-lock.json: a lock holds names and hashes.
import { readFileSync, writeFileSync } from "node:fs";

const file = new URL("package-lock.json", import.meta.url);
const lock = JSON.parse(readFileSync(file, "utf-8"));
for (const entry of Object.values(lock.packages)) delete entry.funding;
writeFileSync(file, JSON.stringify(lock, null, 2) + "\n");
