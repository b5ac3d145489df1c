// Command demo shows nodekeep at work on a real control plane on loopback.
//
//	demo story          tells the whole story and cleans up
//	demo up --dir DIR   starts a control plane with nodekeep on it and leaves it running
//	demo down --dir DIR stops it
package main
