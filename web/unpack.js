/* unpack.js - reads the files that web/assemble.mjs packed into one LZMA stream, which is text of the page.

   Two bytes of the stream are one character. A page in UTF-16 begins with a byte order mark, which browsers obey even if the server
   names another encoding, so each character arrives as it was written; a page in an encoding of one byte would be misread
   when a server calls it UTF-8, as many do. LZMA: lzma-specification.txt by Igor Pavlov, 2015. */

/* A character is two bytes, the lower first. Those that HTML would change (halves of surrogate pairs, NUL, CR, "<") are numbered,
   and such a number and the next byte are one surrogate pair. */
function unpackText(text) {
  const bytes = new Uint8Array(2 * text.length);
  let size = 0;
  for (let at = 0; at < text.length; at++) {
    let unit = text.charCodeAt(at), pair = -1;
    if (unit >> 10 === 0x36) {
      pair = ((unit & 1023) << 10) | (text.charCodeAt(++at) & 1023);
      unit = pair >> 8 < 2048 ? 0xd800 + (pair >> 8) : [0, 13, 60][(pair >> 8) - 2048];
    }
    bytes[size++] = unit;
    bytes[size++] = unit >> 8;
    if (pair >= 0) bytes[size++] = pair;
  }
  return bytes.subarray(0, size);
}

/* `size` bytes of a raw LZMA stream with lc = 4, lp = 0, pb = 0: literals depend on four bits of the byte before, and nothing on
   the position. */
function unpackLzma(input, size) {
  const out = new Uint8Array(size);
  /* where the probabilities of each decision begin; a tree of n bits has 2^n, the first of them unused */
  const MATCH = 0, REP = 12, REP_0 = 24, REP_1 = 36, REP_2 = 48, LONG = 60, SLOT = 72, SPECIAL = 328, ALIGN = 456;
  const LENGTH = 472, REP_LENGTH = 746, LITERAL = 1020;
  const p = new Uint16Array(LITERAL + (0x300 << 4)).fill(1024);
  const coder = new Uint32Array([0xffffffff, 0]); /* range, code */
  let at = 1;
  while (at < 5) coder[1] = (coder[1] << 8) | input[at++];

  function bit(index) {
    const bound = (coder[0] >>> 11) * p[index], is = coder[1] < bound ? 0 : 1;
    if (is) {
      coder[0] -= bound;
      coder[1] -= bound;
      p[index] -= p[index] >> 5;
    } else {
      coder[0] = bound;
      p[index] += (2048 - p[index]) >> 5;
    }
    if (coder[0] < 0x1000000) {
      coder[0] <<= 8;
      coder[1] = (coder[1] << 8) | input[at++];
    }
    return is;
  }
  function tree(base, bits) {
    let node = 1;
    for (let k = 0; k < bits; k++) node = 2 * node + bit(base + node);
    return node - (1 << bits);
  }
  function reversed(base, bits) {
    let node = 1, value = 0;
    for (let k = 0; k < bits; k++) {
      const is = bit(base + node);
      node = 2 * node + is;
      value |= is << k;
    }
    return value;
  }
  function direct(bits) {
    let value = 0;
    while (bits-- > 0) {
      coder[0] >>>= 1;
      const is = coder[1] < coder[0] ? 0 : 1;
      if (is) coder[1] -= coder[0];
      value = 2 * value + is;
      if (coder[0] < 0x1000000) {
        coder[0] <<= 8;
        coder[1] = (coder[1] << 8) | input[at++];
      }
    }
    return value;
  }
  /* two decisions, then trees of 3, 3 and 8 bits */
  function length(base) {
    if (!bit(base)) return 2 + tree(base + 2, 3);
    return bit(base + 1) ? 18 + tree(base + 18, 8) : 10 + tree(base + 10, 3);
  }
  function distance(ofLength) {
    const slot = tree(SLOT + 64 * Math.min(ofLength - 2, 3), 6);
    if (slot < 4) return slot;
    const more = (slot >> 1) - 1, base = (2 | (slot & 1)) << more;
    return slot < 14 ? base + reversed(SPECIAL + base - slot, more) : base + 16 * direct(more - 4) + reversed(ALIGN, 4);
  }

  let state = 0, done = 0, last = [0, 0, 0, 0]; /* distances less 1 */
  while (done < size) {
    if (!bit(MATCH + state)) {
      const base = LITERAL + 0x300 * ((done > 0 ? out[done - 1] : 0) >> 4);
      let node = 1;
      if (state >= 7) { /* after a match, the byte at its distance predicts this one as long as they agree */
        let other = out[done - last[0] - 1];
        do {
          const expected = (other >> 7) & 1, is = bit(base + ((1 + expected) << 8) + node);
          other <<= 1;
          node = 2 * node + is;
          if (is !== expected) break;
        } while (node < 256);
      }
      while (node < 256) node = 2 * node + bit(base + node);
      out[done++] = node;
      state = state < 4 ? 0 : state < 10 ? state - 3 : state - 6;
      continue;
    }
    let count = 1;
    if (!bit(REP + state)) {
      count = length(LENGTH);
      last = [distance(count), last[0], last[1], last[2]];
      state = state < 7 ? 7 : 10;
    } else {
      const which = !bit(REP_0 + state) ? 0 : !bit(REP_1 + state) ? 1 : 2 + bit(REP_2 + state);
      if (which === 0 && !bit(LONG + state)) state = state < 7 ? 9 : 11;
      else {
        last.unshift(...last.splice(which, 1));
        count = length(REP_LENGTH);
        state = state < 7 ? 8 : 11;
      }
    }
    for (const end = Math.min(done + count, size); done < end; done++) out[done] = out[done - last[0] - 1];
  }
  return out;
}
