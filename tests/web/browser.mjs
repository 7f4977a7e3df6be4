/* browser.mjs - drives Chromium through a pipe (DevTools protocol), so that tests need no package of npm.

   Chromium gets no network: every name but 127.0.0.1 resolves to nothing, and requests of a page are listed in `requests`. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const PLACES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const HANG_MS = 20 * 60 * 1000; /* against hanging, not a verdict on speed */

export const chromium = PLACES.find(existsSync);

export class Browser {
  constructor() {
    this.folder = mkdtempSync(join(tmpdir(), "tenure-web-"));
    this.process = spawn(chromium, ["--headless=new", "--remote-debugging-pipe", `--user-data-dir=${this.folder}`, "--no-sandbox", "--disable-gpu",
      "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions", "--hide-scrollbars",
      "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "about:blank"], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    this.waiting = new Map();
    this.listeners = [];
    this.last = 0;
    let rest = Buffer.alloc(0);
    this.process.stdio[4].on("data", (bytes) => {
      rest = Buffer.concat([rest, bytes]);
      for (let end; (end = rest.indexOf(0)) >= 0; rest = rest.subarray(end + 1)) this.heard(JSON.parse(rest.subarray(0, end)));
    });
    this.ended = new Promise((good) => this.process.on("exit", good));
  }

  heard(message) {
    const waits = this.waiting.get(message.id);
    if (waits) {
      this.waiting.delete(message.id);
      message.error ? waits.bad(new Error(`${waits.method}: ${message.error.message}`)) : waits.good(message.result);
    } else for (const listener of this.listeners) listener(message);
  }

  send(method, params = {}, sessionId) {
    const id = ++this.last;
    this.process.stdio[3].write(JSON.stringify({ id, method, params, sessionId }) + "\0");
    return new Promise((good, bad) => this.waiting.set(id, { good, bad, method }));
  }

  async open(url, { width = 1400, height = 900, dark = false } = {}) {
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    const page = new Page(this, sessionId);
    page.close = () => this.send("Target.closeTarget", { targetId });
    for (const room of ["Page", "Runtime", "Network", "DOM", "Log"]) await page.send(`${room}.enable`);
    await page.size(width, height);
    await page.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }] });
    await page.send("Page.navigate", { url });
    await page.until("document.readyState === 'complete'");
    return page;
  }

  async close() {
    this.send("Browser.close").catch(() => {});
    await this.ended;
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

class Page {
  constructor(browser, session) {
    Object.assign(this, { browser, session, requests: [], complaints: [] });
    browser.listeners.push((message) => {
      if (message.sessionId !== session) return;
      const { method, params } = message;
      if (method === "Network.requestWillBeSent") this.requests.push(params.request.url);
      if (method === "Runtime.exceptionThrown") this.complaints.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
      if (method === "Log.entryAdded" && params.entry.level === "error") this.complaints.push(params.entry.text);
    });
  }

  send(method, params) { return this.browser.send(method, params, this.session); }
  size(width, height) { return this.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false }); }

  async evaluate(expression) {
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    assert(!exceptionDetails, `${expression}: ${exceptionDetails?.exception?.description}`);
    return result.value;
  }

  async until(expression) {
    const end = performance.now() + HANG_MS;
    while (!(await this.evaluate(expression))) {
      assert(performance.now() < end, `still not true: ${expression}`);
      await new Promise((good) => setTimeout(good, 50));
    }
  }

  async choose(selector, files) {
    const { root } = await this.send("DOM.getDocument");
    const { nodeId } = await this.send("DOM.querySelector", { nodeId: root.nodeId, selector });
    await this.send("DOM.setFileInputFiles", { nodeId, files });
  }

  async screenshot(path) {
    const { data } = await this.send("Page.captureScreenshot", { format: "png" });
    writeFileSync(path, Buffer.from(data, "base64"));
  }
}
