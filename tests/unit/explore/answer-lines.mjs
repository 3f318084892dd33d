// One process answers all questions of a test run, because node takes longer to start than to answer.
import { createInterface } from "node:readline";

/** Answer each line of the standard input, a task's name and content, with a line: its answer, or what went wrong. */
export async function answerLines(tasks, replace) {
  for await (const line of createInterface({ input: process.stdin })) {
    const { task, ...content } = JSON.parse(line);
    let said;
    try {
      said = { answer: await tasks[task](content) };
    } catch (error) {
      said = { error: error.stack };
    }
    process.stdout.write(`${JSON.stringify(said, replace)}\n`);
  }
}
