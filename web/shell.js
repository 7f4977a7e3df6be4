/* shell.js - shows the page: its text, style and code are the first files of the packed stream (web/assemble.mjs). */
const packedText = document.getElementById("packed").textContent, packedSizes = JSON.parse(document.getElementById("sizes").textContent);
const packedFiles = {};
{
  const shown = packedSizes.slice(0, packedSizes.findIndex(([name]) => name === "glue"));
  const bytes = unpackLzma(unpackText(packedText.slice(0, 0x8000)), shown.reduce((sum, [, size]) => sum + size, 0));
  let at = 0;
  for (const [name, size] of shown) packedFiles[name] = new TextDecoder().decode(bytes.subarray(at, at += size));
}
document.head.append(Object.assign(document.createElement("style"), { textContent: packedFiles["page.css"] }));
document.body.insertAdjacentHTML("beforeend", packedFiles["page.html"]);
document.body.append(Object.assign(document.createElement("script"), { textContent: packedFiles["page.js"] }));
