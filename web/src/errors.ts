/** What demitasse refuses: one sentence that says what was given, what is allowed and what to do. */
export class DemitasseError extends Error {
  override name = "DemitasseError";
}

/** An error of any kind as one line. */
export function reason(problem: unknown): string {
  return (problem instanceof Error ? problem.message : String(problem)).split("\n")[0]!.slice(0, 300);
}
