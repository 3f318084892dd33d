/** Ask a worker, and get the answer as a promise. Several questions may wait; they are answered in order. */

/** @typedef {{ resolve: (answer: any) => void, reject: (error: Error) => void }} Waiting */

export class Asks {
  /** @param {Worker} worker  answers {id, ...question} with {id, answer} or {id, failed} */
  constructor(worker) {
    this.worker = worker;
    this.last = 0;
    /** @type {Map<number, Waiting>} */
    this.waiting = new Map();
    worker.addEventListener("message", ({ data }) => {
      const waiting = this.waiting.get(data.id);
      this.waiting.delete(data.id);
      if (data.failed === undefined) waiting?.resolve(data.answer);
      else waiting?.reject(new Error(data.failed));
    });
    worker.addEventListener("error", (event) => {
      for (const { reject } of this.waiting.values()) reject(new Error(event.message || "a worker of the page failed."));
      this.waiting.clear();
    });
  }

  /**
   * @param {string} kind
   * @param {object} [content]
   * @returns {Promise<any>}
   */
  ask(kind, content = {}) {
    const id = ++this.last;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.worker.postMessage({ id, kind, ...content });
    });
  }
}

/**
 * Let a worker answer questions.
 * @param {Record<string, (question: any) => any>} answers  by kind
 */
export function answering(answers) {
  self.addEventListener("message", async ({ data }) => {
    try {
      self.postMessage({ id: data.id, answer: await answers[data.kind](data) });
    } catch (error) {
      self.postMessage({ id: data.id, failed: error instanceof Error ? error.message : String(error) });
    }
  });
}
