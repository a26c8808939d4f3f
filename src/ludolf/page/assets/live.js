// The live view: requests new entries from the server when it announces them.

const AGAIN = 1000;
let announced = { ...known };
let asking = false;

const after = () => `after=${encodeURIComponent(`${known.reading}-${known.count}`)}`;

// ------------------------------------------------------------ the wire

function connect() {
  const events = new EventSource(`events?${after()}`);
  events.addEventListener("open", () => {
    setState("live");
    catchUp();
  });
  events.addEventListener("grown", (event) => {
    announced = JSON.parse(event.data);
    catchUp();
  });
  events.addEventListener("end", () => {
    events.close();
    setState("ended");
  });
  events.addEventListener("error", () => {
    if (state === "ended") return;
    setState("lost");
    // A browser does not reconnect after an HTTP error.
    if (events.readyState === EventSource.CLOSED) setTimeout(connect, 3 * AGAIN);
  });
}

// The server's document is parsed by the browser with all script off; no text becomes markup here.
function catchUp() {
  if (announced.reading !== known.reading) startOver();
  if (asking || announced.count <= known.count) return;
  asking = true;
  const request = new XMLHttpRequest();
  request.open("GET", `news?${after()}`);
  request.responseType = "document";
  request.addEventListener("loadend", () => {
    asking = false;
    if (request.status === 409) startOver();
    else if (request.status === 200 && request.responseXML) {
      take(request.responseXML);
      catchUp();
    } else setTimeout(catchUp, AGAIN);
  });
  request.send();
}

function startOver() {
  location.reload();
}

function showTail() {
  const tail = at("tail");
  const last = path.findLast((index) => data.kinds[index] !== "q");
  const since = Date.now() - (data.times[size - 1] ?? Date.now());
  const busy = state === "live" && since < LONG_AGO;
  const runs = conversation.contains(asker) && asker?.querySelector(".running .name");
  let words = `Last entry ${ago(since)} ago`;
  if (state === "ended") words = "The live view has ended; the page stays as it is";
  else if (busy && runs) words = `Running ${runs.textContent === "$" ? "a command" : runs.textContent} · ${ago(since)}`;
  else if (busy && "utfb".includes(data.kinds[last] ?? "-")) words = `Waiting for the model · ${ago(since)}`;
  tail.classList.toggle("busy", busy && !words.startsWith("Last"));
  tail.lastElementChild.textContent = words;
}

setInterval(showTail, 1000);
markRunning();
showState();
if (!location.hash) toEnd();
connect();
