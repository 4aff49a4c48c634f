// What the end-to-end cases share.
export * from './base.mjs';
export * from './daemon.mjs';
export * from './events.mjs';
export * from './node.mjs';
