// Package secured is what the programs of Go share that log in: settings in, outcomes out.
package secured

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"os"
	"time"
)

// Orders is what the test asks for, from the variable INTEROP_ORDERS.
type Orders struct {
	Settings        json.RawMessage
	Topic           string
	NewTopic        string
	Group           string
	TransactionalID string
	Count           int
	Calls           []string
}

// Wait limits each of the calls.
const Wait = 20 * time.Second

// Given reads the orders and the client's settings.
func Given(settings any) Orders {
	var orders Orders
	check(json.Unmarshal([]byte(os.Getenv("INTEROP_ORDERS")), &orders))
	check(json.Unmarshal(orders.Settings, settings))
	return orders
}

// TLS trusts the authority of the cluster alone.
func TLS(path string) *tls.Config {
	text, err := os.ReadFile(path)
	check(err)
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		panic("no certificate in " + path)
	}
	return &tls.Config{RootCAs: pool}
}

// Tell writes the outcome of each call: ok, or the error.
func Tell(orders Orders, calls map[string]func() error) {
	outcomes := map[string]string{}
	for _, name := range orders.Calls {
		outcomes[name] = "ok"
		if err := calls[name](); err != nil {
			outcomes[name] = err.Error()
		}
	}
	check(json.NewEncoder(os.Stdout).Encode(outcomes))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
