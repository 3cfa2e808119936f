// Package proa holds the rules that are about the repository as a whole: which
// package may import which, and what each must say about itself. They are
// checked by its tests; ARCHITECTURE.md explains them.
package proa
