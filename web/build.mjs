// Build what ships: `node build.mjs` writes ../src/demitasse/assets/web, `--out FOLDER` another folder, and `--tests` the
// tests as Node runs them.

import { build } from "esbuild";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const here = import.meta.dirname;
const given = process.argv.indexOf("--out");
const out = given < 0 ? join(here, "../src/demitasse/assets/web") : process.argv[given + 1];
const ort = join(here, "node_modules/onnxruntime-web/dist");
const shared = { bundle: true, format: "esm", target: "es2022", absWorkingDir: here, logLevel: "warning" };
// The page imports the library that lies beside it, as pages of others do.
const library = {
  name: "library",
  setup: ({ onResolve }) => onResolve({ filter: /src\/index\.ts$/ }, () => ({ path: "./runtime/demitasse.js", external: true })),
};

if (process.argv.includes("--tests")) {
  const tests = ["bert", "encoder", "files", "search_index"].map((name) => `test/${name}.test.ts`);
  await build({ ...shared, entryPoints: tests, outdir: "build/tests", platform: "node", packages: "external", outExtension: { ".js": ".mjs" } });
} else {
  const kept = { ...shared, minify: true, legalComments: "eof", platform: "browser", conditions: ["onnxruntime-web-use-extern-wasm"] };
  await build({ ...kept, entryPoints: { demitasse: "src/index.ts", worker: "src/worker.ts" }, outdir: join(out, "runtime") });
  await build({ ...kept, entryPoints: { page: "page/page.ts", sw: "page/sw.ts" }, outdir: join(out, "page"), plugins: [library] });
  await mkdir(join(out, "runtime"), { recursive: true });
  await copyFile(join(ort, "ort-wasm-simd-threaded.mjs"), join(out, "runtime/ort-wasm-simd-threaded.mjs"));
  const wasm = await readFile(join(ort, "ort-wasm-simd-threaded.wasm"));
  await writeFile(join(out, "runtime/ort-wasm-simd-threaded.wasm.packed"), gzipSync(wasm, { level: 9 }));
  const licenses = [join(here, "licenses.txt"), join(here, "node_modules/@huggingface/tokenizers/LICENSE")];
  await writeFile(join(out, "runtime/licenses.txt"), Buffer.concat(await Promise.all(licenses.map((path) => readFile(path)))));
  for (const name of ["index.html", "page.css", "app.webmanifest", "icon.svg", "icon-192.png", "icon-512.png"]) {
    await copyFile(join(here, "page", name), join(out, "page", name));
  }
}
