//go:build ignore

package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/cluster"
)

func main() {
	c, err := cluster.Start(context.Background(), cluster.Options{})
	if err != nil {
		panic(err)
	}
	defer c.Stop()
	client := kubernetes.NewForConfigOrDie(c.Admin())
	s, _ := store.NewConfigMaps(client, "default", slog.Default())
	go s.Run(context.Background())
	worst := time.Duration(0)
	for range 160 {
		time.Sleep(time.Second)
		age := time.Since(s.Progress())
		if age > worst {
			worst = age
		}
	}
	fmt.Println("worst age of progress on a quiet watch", worst)
}
