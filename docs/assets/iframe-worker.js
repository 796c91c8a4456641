/* The search runs in a Worker, which browsers refuse to pages opened from a file. There, a hidden frame takes its place. */
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      this.scope = frame.contentWindow
      this.scope.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      this.ready = new Promise(loaded => {
        const script = this.scope.document.createElement("script")
        script.src = url
        script.onload = loaded
        this.scope.document.body.appendChild(script)
      })
    }
    postMessage(data) {
      this.ready.then(() => this.scope.dispatchEvent(new MessageEvent("message", { data })))
    }
  }
  window.Worker = window.IFrameWorker
}
