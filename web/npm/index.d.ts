/** Plans, draws and estimates the memory of neural networks: the command `tenure` as a library. Nothing uses the network. */

export type Bytes = Uint8Array | ArrayBuffer | string;

export interface RunOptions {
  /** Files that the command may read, by relative path. */
  files?: Record<string, Bytes>;
  /** Gets the text of the progress bar during long runs. */
  onProgress?: (text: string) => void;
}

export interface RunResult {
  /** 0 done; 1 it does not fit, or differs; 2 bad usage or input; 3 stopped before an answer; 4 internal error. */
  status: number;
  stdout: string;
  stderr: string;
  /** Files that the command wrote, by relative path. */
  files: Record<string, Uint8Array>;
}

export interface AnswerOptions extends RunOptions {
  /** Further words of the command line, such as ["--batch", "8"]. */
  options?: string[];
}

/** The object that the command prints with --json. `tenure help COMMAND` describes it; all sizes are in bytes. */
export type Answer = Record<string, any>;

/** Exit status 2 or more of plan, estimate, arena, report and picture. */
export class TenureError extends Error {
  status: number;
  stderr: string;
}

/** Replaces the WebAssembly module next to the package: a URL (browser), a Response (browser), its bytes, or a compiled module. */
export function init(from: string | URL | Response | BufferSource | WebAssembly.Module | Promise<unknown>): void;

/** Runs one command line without the leading `tenure`: run(["plan", "model.onnx", "--json"], {files: {"model.onnx": bytes}}). */
export function run(words: string[], options?: RunOptions): Promise<RunResult>;

/** `tenure plan NAME --json`. The suffix of `name` gives the format: .onnx, .tflite, .csv or .json. */
export function plan(name: string, data: Bytes, options?: AnswerOptions): Promise<Answer>;

/** `tenure estimate NAME --json`: a model, or the config.json, .safetensors or .gguf file of a language model. */
export function estimate(name: string, data: Bytes, options?: AnswerOptions): Promise<Answer>;

/** `tenure arena NAME --json`: the arena of a .tflite model in TensorFlow Lite Micro. */
export function arena(name: string, data: Bytes, options?: AnswerOptions): Promise<Answer>;

/** `tenure report NAME --json`: a memory snapshot of PyTorch (.pickle). */
export function report(name: string, data: Bytes, options?: AnswerOptions): Promise<Answer>;

/** The picture of a plan or snapshot as one HTML page. */
export function picture(name: string, data: Bytes, options?: AnswerOptions): Promise<string>;
