mod columns;
mod golden;
mod sending;
