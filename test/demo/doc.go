// Command demo shows nodekeep at work on a real control plane on loopback.
//
//   - demo run: shows how a Node loses its labels and gets them back, and stops everything
//   - demo record FILE: does the same, and writes what it printed as a moving picture (SVG)
//   - demo up --dir DIR: starts a control plane with nodekeep on it and leaves it running
//   - demo down --dir DIR: stops it
package main
