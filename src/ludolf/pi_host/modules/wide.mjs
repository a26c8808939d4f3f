// Code points that take two columns: East_Asian_Width W and F of Unicode 18.
// Each pair is the distance to the previous range and the length minus one, in base 36.
const RANGES =
  "3cw.2n 3i3.1 e.1 5b.3 4.0 3.0 ei.1 m.1 r.7 h.b 18.0 b.5 4.0 e.0 9.1 i.1 6.1 9.0 6.0 m.0 " +
  "8.1 2.0 5.0 3.0 8.0 5.1 t.0 10.0 2.0 5.2 2.0 1q.2 p.0 f.0 nw.1 1g.0 5.0 mj.p 2.2g d.5x " +
  "r.1l 7.e 3.2d 5.2s 6.16 2.1e 2.15 2.2d a.1b 2.13 9.mkc 4.1i wq.s hw.8mb 6l9.e7 lt.9 n.y " +
  "2.i 2.3 46.2n 3k.6 m4a.3 f.4 a.5p6 11.x 2o.36 e.pd f.1e 5y6.3 2.6 2.1 2.88 a.0 u.2 3.0 f.4 " +
  "8.az 6bp.2e a.m 5n2.0 5n.0 5b.0 3.9 k.0 1k.s e.17 5.8 8.1 f.5 4b.w d.8 2.1x 2.l d.16 5.4 " +
  "d.g 4.0 4.1y 2.0 2.56 3.1q e.3 2.n j.0 r.1 e.0 2f.2c 1d.1x 7.0 4.2 3.4 3.3 c.1 8.8 66.0 " +
  "6.b 5.0 7w.1a 2.9 2.54 35.c 4.1y 2.0 4.h 2.c 4.b zq.1ekd 3.1ekd";

const starts = [];
const ends = [];
let at = 0;
for (const pair of RANGES.split(" ")) {
  const [gap, length] = pair.split(".").map((text) => parseInt(text, 36));
  starts.push(at + gap);
  at += gap + length;
  ends.push(at);
}

export function isWide(point) {
  if (point < starts[0]) return false;
  let low = 0;
  let high = starts.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (starts[middle] <= point) low = middle;
    else high = middle - 1;
  }
  return point <= ends[low];
}
