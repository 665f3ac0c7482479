// Build what ships: `node build.mjs` writes ../src/demitasse/assets/web, `--out FOLDER` another folder, and `--tests` the
// tests as Node runs them. `--marking` is for tools/runtime_functions.py: a runtime that marks the functions that ran.

import { build } from "esbuild";
import { createHash } from "node:crypto";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { marking, without } from "./wasm.mjs";

const here = import.meta.dirname;
const given = process.argv.indexOf("--out");
const out = given < 0 ? join(here, "../src/demitasse/assets/web") : process.argv[given + 1];
const ort = join(here, "node_modules/onnxruntime-web/dist");
const shared = { bundle: true, format: "esm", target: "es2022", absWorkingDir: here, logLevel: "warning" };
const PAGES = 8192; // of 64 KiB: the memory that a runtime that marks starts with; its marks are at the end of it
const MARKS = (PAGES - 1) * 65536;
// The page imports the library that lies beside it, as pages of others do.
const library = {
  name: "library",
  setup: ({ onResolve }) => onResolve({ filter: /src\/index\.ts$/ }, () => ({ path: "./runtime/demitasse.js", external: true })),
};

const marks = process.argv.includes("--marking");
const MARKER = `
  const { Memory } = WebAssembly;
  let memory;
  WebAssembly.Memory = class extends Memory {
    constructor(limits) { // a small one is made to see whether it can be shared
      super({ ...limits, initial: limits.maximum > ${PAGES} ? ${PAGES} : limits.initial });
      if (limits.maximum > ${PAGES}) memory = this;
    }
  };
  self.addEventListener("message", (event) => {
    if (event.data !== "marks") return;
    event.stopImmediatePropagation();
    event.ports[0].postMessage(Array.from(new Uint8Array(memory.buffer, ${MARKS}, 65536)));
  });`;

/** The numbers of the functions that the small runtime keeps. */
async function keptOf(wasm) {
  const { sha256, kept } = JSON.parse(await readFile(join(here, "runtime_functions.json"), "utf8"));
  if (createHash("sha256").update(wasm).digest("hex") !== sha256) {
    throw new Error("runtime_functions.json is of another version of onnxruntime-web; run tools/runtime_functions.py");
  }
  const ranges = kept.split(" ").map((range) => range.split("-").map(Number));
  return new Set(ranges.flatMap(([first, last = first]) => Array.from({ length: last - first + 1 }, (_, at) => first + at)));
}

if (process.argv.includes("--tests")) {
  const tests = ["bert", "encoder", "files", "search_index", "wasm"].map((name) => `test/${name}.test.ts`);
  await build({ ...shared, entryPoints: tests, outdir: "build/tests", platform: "node", packages: "external", outExtension: { ".js": ".mjs" } });
} else {
  const kept = { ...shared, minify: true, legalComments: "eof", platform: "browser", conditions: ["onnxruntime-web-use-extern-wasm"] };
  const banner = marks ? { js: MARKER } : {};
  await build({ ...kept, entryPoints: { demitasse: "src/index.ts" }, outdir: join(out, "runtime") });
  await build({ ...kept, entryPoints: { worker: "src/worker.ts" }, outdir: join(out, "runtime"), banner });
  await build({ ...kept, entryPoints: { page: "page/page.ts", sw: "page/sw.ts" }, outdir: join(out, "page"), plugins: [library] });
  await mkdir(join(out, "runtime"), { recursive: true });
  await copyFile(join(ort, "ort-wasm-simd-threaded.mjs"), join(out, "runtime/ort-wasm-simd-threaded.mjs"));
  const wasm = await readFile(join(ort, "ort-wasm-simd-threaded.wasm"));
  const pack = (name, content) => writeFile(join(out, "runtime", `${name}.wasm.packed`), gzipSync(content, { level: 9 }));
  await pack("ort-wasm-simd-threaded", marks ? marking(wasm, MARKS) : wasm);
  await pack("ort-wasm-small", marks ? marking(wasm, MARKS) : without(wasm, await keptOf(wasm)));
  const licenses = [join(here, "licenses.txt"), join(here, "node_modules/@huggingface/tokenizers/LICENSE")];
  await writeFile(join(out, "runtime/licenses.txt"), Buffer.concat(await Promise.all(licenses.map((path) => readFile(path)))));
  for (const name of ["index.html", "page.css", "app.webmanifest", "icon.svg", "icon-192.png", "icon-512.png"]) {
    await copyFile(join(here, "page", name), join(out, "page", name));
  }
}
