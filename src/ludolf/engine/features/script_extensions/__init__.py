"""Run extensions written for pi in JavaScript or TypeScript, in a child process of Node."""
